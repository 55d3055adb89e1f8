"""Which offset of a partition may be committed: everything before it is finished."""

from collections import OrderedDict


class Offsets:
    """What was read of a partition, in this assignment, and what of it is finished.

    Only records that were read count. Offsets between them never come: compaction removed them, they are markers of a
    transaction, or records of one that was aborted.
    """

    def __init__(self) -> None:
        self._in_flight: OrderedDict[int, bool] = OrderedDict()
        """By offset in order: is it finished? The first one is not."""
        self.end: int | None = None
        """One past the last record that was read; None before the first."""

    def read(self, offset: int) -> None:
        """Note a record; one that was read before counts no second time."""
        if self.end is None or offset >= self.end:
            self._in_flight[offset] = False
            self.end = offset + 1

    def finish(self, offset: int) -> None:
        """Note that a record is done with; one that was not read, or is done, changes nothing."""
        if offset in self._in_flight:
            self._in_flight[offset] = True
        while self._in_flight and self._in_flight[next(iter(self._in_flight))]:
            self._in_flight.popitem(last=False)

    def pass_gap(self, position: int) -> None:
        """Note that no record is left before a position: without any at hand it may be committed."""
        if self.end is None or position > self.end:
            self.end = position

    @property
    def idle(self) -> bool:
        """Is everything finished that was read?"""
        return not self._in_flight

    @property
    def finished(self) -> int | None:
        """The first record that is not finished, else one past the last that was read; None where none was."""
        return next(iter(self._in_flight), self.end)
