"""Tracking of the offset of a partition that may be committed: all records before it are finished."""

from collections import OrderedDict


class Offsets:
    """Read and finished records of a partition in the current assignment.

    Only read records count. Offsets between them never arrive: they were compacted, mark a transaction, or belong to an
    aborted one.
    """

    def __init__(self) -> None:
        self._in_flight: OrderedDict[int, bool] = OrderedDict()
        """Whether each offset is finished, in order; the first one is not."""
        self.end: int | None = None
        """One past the last read record; None before the first."""

    def read(self, offset: int) -> None:
        """Add a read record; repeated ones are ignored."""
        if self.end is None or offset >= self.end:
            self._in_flight[offset] = False
            self.end = offset + 1

    def finish(self, offset: int) -> None:
        """Mark a record as finished; unread and finished ones are ignored."""
        if offset in self._in_flight:
            self._in_flight[offset] = True
        while self._in_flight and self._in_flight[next(iter(self._in_flight))]:
            self._in_flight.popitem(last=False)

    def pass_gap(self, position: int) -> None:
        """Advance to a position before which no record is left, if none is in flight."""
        if self.end is None or position > self.end:
            self.end = position

    @property
    def idle(self) -> bool:
        """Whether all read records are finished."""
        return not self._in_flight

    @property
    def finished(self) -> int | None:
        """First unfinished record, else one past the last read one; None where none was read."""
        return next(iter(self._in_flight), self.end)
