"""Lag of a stage: records that wait, and the maximum age of the oldest."""

from collections.abc import Iterable, Mapping

from freki.schemas.names import Timestamp
from freki.streams.observe.meters import PartitionBacklog

Place = tuple[str, int]
"""Topic and partition."""
Backlog = Mapping[Place, int]
"""Unfinished records of each assigned partition."""


class Lag:
    """Upper bound on the age of waiting records, from the last record read and the last time without a backlog.

    The broker reports how many records wait, but not since when; reading them only for their age would read them twice.
    """

    def __init__(self) -> None:
        self._since: dict[Place, Timestamp] = {}
        """Lower bound on the timestamps of waiting records."""
        self._unknown: set[Place] = set()
        """Partitions that had a backlog when they were first seen, and of which nothing was read since: their bound is
        that look, and may be too high."""
        self._backlog: Backlog = {}

    def reached(self, records: Iterable[tuple[Place, Timestamp]]) -> None:
        """Record timestamps of records in flight, in partition order: the records behind them are younger."""
        for place, timestamp in records:
            if timestamp <= 0:
                # A record of a foreign topic without a time.
                continue
            known = timestamp if place in self._unknown else self._since.get(place, timestamp)
            self._unknown.discard(place)
            self._since[place] = max(timestamp, known)

    def seen(self, backlog: Backlog, now: Timestamp) -> None:
        """Record the current backlog; partitions absent from it are no longer assigned."""
        self._backlog = dict(backlog)
        new = backlog.keys() - self._since.keys()
        self._unknown = {place for place, records in backlog.items() if records and place in new | self._unknown}
        # Not after this look: where producers set the times of records, one of the future would hide what waits.
        self._since = {
            place: min(self._since.get(place, now), now) if records else now for place, records in backlog.items()
        }

    def waiting(self, now: Timestamp) -> tuple[PartitionBacklog, ...]:
        """Return the lag of each partition."""
        # Copies, because another thread may call this.
        backlog, since = self._backlog, self._since
        return tuple(
            PartitionBacklog(
                topic, partition, records, max(0, now - since.get((topic, partition), now)) / 1000 if records else 0.0
            )
            for (topic, partition), records in backlog.items()
        )
