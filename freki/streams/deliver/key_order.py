"""Order of the records of a key on a compacted topic."""

from freki.streams.messages import Stored


class KeyOrder:
    """Tells which records are older than one of their key that was read before.

    Within a partition none is. Where partitions were added, a key has records in two of them, which are read in any
    order: the later timestamp counts, which is that of the broker.
    """

    def __init__(self) -> None:
        self._last: dict[bytes | None, tuple[int, int]] = {}
        """Timestamp and partition of the last record of each key."""

    def is_outdated(self, stored: Stored) -> bool:
        """Return whether a record of its key came later on another partition, and has been read."""
        this, last = (stored.timestamp_ms, stored.partition), self._last.get(stored.key)
        if last is not None and last[1] != stored.partition and last > this:
            return True
        self._last[stored.key] = this
        return False

    def clear(self) -> None:
        """Forget all records."""
        self._last.clear()
