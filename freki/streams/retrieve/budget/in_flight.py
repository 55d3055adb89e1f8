"""The queries that are being answered, and when each answer has to leave."""

from collections.abc import Callable, Iterable

from freki.schemas import Timestamp
from freki.streams.retrieve.query_state import QueryState

CROWD_S = 0.05
"""Answers that are due within this time before another one leave one after the other, and it waits for them."""


class InFlight:
    """What queries take from each other: the cores while they compute, and the way out when they are due together."""

    def __init__(self, now: Callable[[], Timestamp]) -> None:
        self._now = now
        self._due_s: dict[int, float] = {}

    def begin(self, states: Iterable[QueryState]) -> None:
        """Know of queries from here on."""
        now = self._now()
        self._due_s |= {id(state): now / 1000 + state.remaining_s(now) for state in states}

    def end(self, states: Iterable[QueryState]) -> None:
        """Forget queries that take nothing from others: they are answered, or only wait."""
        for state in states:
            self._due_s.pop(id(state), None)

    def before(self, due_s: float, also: Iterable[float] = ()) -> int:
        """Count the answers that leave shortly before this time, or with it; `also`: when further ones will."""
        return sum(due_s - CROWD_S <= other_s <= due_s for other_s in (*self._due_s.values(), *also))

    def before_own(self, state: QueryState) -> int:
        """Count those that leave shortly before the answer to this query, or with it."""
        due_s = self._due_s.get(id(state))
        return 0 if due_s is None else self.before(due_s) - 1

    def share_s(self, state: QueryState, ends_at_s: float) -> float:
        """Seconds that a query may keep the cores busy, so that all others have as much, and each ends in time.

        The least of what each allows: the time until its end, divided by those who end no later and itself.
        ends_at_s: when this query must be done with it; the others, as long before they are due.
        """
        now_s = self._now() / 1000
        own_due_s = self._due_s.get(id(state), ends_at_s)
        others = [ends_at_s + due_s - own_due_s for key, due_s in self._due_s.items() if key != id(state)]
        ends = sorted([ends_at_s, *others])
        first = ends.index(ends_at_s)
        return min((end - now_s) / (place + 1) for place, end in enumerate(ends) if place >= first)
