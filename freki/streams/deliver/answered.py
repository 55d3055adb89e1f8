"""Which queries of a batch were answered, or counted, where another one fails the batch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from freki.streams.messages import Received

_Place = tuple[str, int, int, int]
"""Topic, partition, offset and time: a broker that keeps records in memory begins with the same offsets again."""
Q = TypeVar("Q")

MOST = 10_000
"""Maximum number of remembered queries: above what is being handled by far."""


class Answered:
    """Keeps queries from being answered or counted again: a batch that fails is delivered again, whole or in halves."""

    def __init__(self) -> None:
        self._handled: set[_Place] = set()
        """Of the batches that are being handled."""
        self._answered: dict[_Place, None] = {}
        """Those that were answered, or counted, in a batch that is being handled, or that failed, the latest last.

        Of failed ones those that do not come again, which are another worker's or dead letters, stay until they are
        the oldest of too many.
        """

    @contextmanager
    def left(self, batch: Sequence[Received[Q]]) -> Iterator[Sequence[Received[Q]]]:
        """Handle the queries of a batch that have no answer yet."""
        places = {_place(received) for received in batch}
        self._handled |= places
        try:
            yield [received for received in batch if _place(received) not in self._answered]
            for place in places:
                self._answered.pop(place, None)
        finally:
            self._handled -= places

    def has(self, received: Received[Any]) -> bool:
        """Return whether a query is remembered."""
        return _place(received) in self._answered

    def add(self, received: Received[Any]) -> None:
        """Remember that a query has its answer, or will have it whatever becomes of its batch."""
        # Others are not delivered again. Those of this process have no place of their own, and a mailbox each.
        if received.offset >= 0 and (place := _place(received)) in self._handled:
            self._answered[place] = None
            if len(self._answered) > MOST:
                del self._answered[next(iter(self._answered))]


def _place(received: Received[Any]) -> _Place:
    return received.topic, received.partition, received.offset, received.timestamp
