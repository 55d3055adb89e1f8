"""Queries in flight, and when their answers are due."""

from collections.abc import Callable, Iterable

from freki.schemas import Timestamp
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.query_log import QueryLog

CROWD_S = 0.05
"""Answers due within this time before another one leave one after the other, and delay it."""


class InFlight:
    """Tracks what queries take from each other: cores while they compute, time to leave when they are due together."""

    def __init__(self, now: Callable[[], Timestamp]) -> None:
        self._now = now
        self._due_s: dict[QueryLog, float] = {}

    def begin(self, queries: Iterable[ParsedQuery]) -> None:
        """Count queries from here on."""
        now = self._now()
        self._due_s |= {query.log: now / 1000 + query.remaining_s(now) for query in queries}

    def end(self, queries: Iterable[ParsedQuery]) -> None:
        """Stop counting queries: they are answered, or only wait."""
        for query in queries:
            self._due_s.pop(query.log, None)

    def before(self, due_s: float, also: Iterable[float] = ()) -> int:
        """Return the number of answers due at this time or shortly before; also: due times of further ones."""
        return sum(due_s - CROWD_S <= other_s <= due_s for other_s in (*self._due_s.values(), *also))

    def before_own(self, query: ParsedQuery) -> int:
        """Return the number of other answers due with the answer to this query or shortly before."""
        due_s = self._due_s.get(query.log)
        return 0 if due_s is None else self.before(due_s) - 1

    def share_s(self, query: ParsedQuery, ends_at_s: float) -> float:
        """Return the seconds for which a query may use all cores so that each query in flight gets as much in time.

        It is the minimum, over all queries that end no earlier, of the time until that end divided by the number of
        queries that end no later.
        ends_at_s: when this query must be done computing; the others must be done as long before they are due.
        """
        now_s = self._now() / 1000
        own_due_s = self._due_s.get(query.log, ends_at_s)
        others = [ends_at_s + due_s - own_due_s for log, due_s in self._due_s.items() if log is not query.log]
        ends = sorted([ends_at_s, *others])
        first = ends.index(ends_at_s)
        return min((end - now_s) / (place + 1) for place, end in enumerate(ends) if place >= first)
