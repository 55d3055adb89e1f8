"""How far a stage is behind: records that wait, and how old the oldest of them can be."""

from collections.abc import Iterable, Mapping

from freki.schemas.names import Timestamp
from freki.streams.observe.meters import Waiting

Place = tuple[str, int]
"""Topic and partition."""
Backlog = Mapping[Place, int]
"""Records that are there and not finished, of each partition of ours."""


class Lag:
    """Bounds the age of what waits by what was read last, and by when nothing waited.

    The broker tells how many records wait, not since when; reading them only to see would take them twice.
    """

    def __init__(self) -> None:
        self._since: dict[Place, Timestamp] = {}
        """No record that waits is older."""
        self._backlog: Backlog = {}

    def reached(self, records: Iterable[tuple[Place, Timestamp]]) -> None:
        """Note records that are at hand, in the order of their partition: what waits behind them is younger."""
        for place, timestamp in records:
            self._since[place] = max(timestamp, self._since.get(place, timestamp))

    def seen(self, backlog: Backlog, now: Timestamp) -> None:
        """Note how many records wait; partitions that are not named are no longer ours."""
        self._backlog = dict(backlog)
        self._since = {place: now if not records else self._since.get(place, now) for place, records in backlog.items()}

    def waiting(self, now: Timestamp) -> tuple[Waiting, ...]:
        """Give what waits in each partition."""
        # A copy first: another thread may ask.
        backlog, since = self._backlog, self._since
        return tuple(
            Waiting(
                topic, partition, records, max(0, now - since.get((topic, partition), now)) / 1000 if records else 0.0
            )
            for (topic, partition), records in backlog.items()
        )
