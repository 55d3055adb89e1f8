"""Offsets of the records that were read of a topic."""

from collections.abc import Mapping

from freki.streams.messages import Stored


class ReadOffsets:
    """The last offset that was read of each partition of one topic."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def is_new(self, stored: Stored) -> bool:
        """Return whether a record was not read before, and remember it."""
        if stored.offset <= self._last.get(stored.partition, -1):
            return False
        self._last[stored.partition] = stored.offset
        return True

    def reset_if_replaced(self, ends: Mapping[int, int]) -> bool:
        """Forget all if the topic is another one than before; return whether it is.

        ends: end offset of each partition.
        """
        if all(ends.get(partition, 0) > offset for partition, offset in self._last.items()):
            return False
        self._last.clear()
        return True
