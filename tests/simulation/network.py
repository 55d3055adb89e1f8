"""Requests to broker and store: each takes time, and in bad weather it may fail, hang, or take effect late."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from freki.schemas.errors import Unavailable
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")

PATIENCE_S = 10.0
SPREAD_S = 0.02
"""Between the effects of one request, at most."""
LONGEST_LATE_S = 150.0
"""When a request at the latest takes effect whose caller was told of an error."""


@dataclass(frozen=True, slots=True)
class Spell:
    """Bad weather at one place, from and to virtual seconds."""

    place: str
    """`broker` or `store`."""
    begins_s: float
    ends_s: float
    fails: float = 0.0
    """Share of requests that fail without effect."""
    unanswered: float = 0.0
    """Share of requests that take effect, and whose answer is lost."""
    late: float = 0.0
    """Share of requests that fail for the caller and take effect afterwards."""
    slow_s: float = 0.0
    """Added to each request, at most."""


@dataclass(slots=True)
class Network:
    """Carries requests between processes and servers."""

    loop: SimulatedLoop
    random: Random
    spells: list[Spell] = field(default_factory=list)
    quickest_s: float = 0.0005
    slowest_s: float = 0.01
    late_until_s: float = 0.0
    """When the last late effect will have happened."""
    over: bool = False

    def delay_s(self) -> float:
        """Draw the time of one way."""
        return self.random.uniform(self.quickest_s, self.slowest_s)

    def request(
        self, place: str, *effects: Callable[[], T], patience_s: float = PATIENCE_S, late: bool = True
    ) -> asyncio.Future[T]:
        """Send a request; the future has the result of its last effect, or Unavailable.

        Several effects come in any order and each by itself. late: may they come after the error?
        """
        answer: asyncio.Future[Any] = self.loop.create_future()
        if self.over:
            return answer
        spell = self._spell(place)
        if spell is None:
            self._send(effects, self.delay_s(), answer)
            return answer
        self.loop.outside(patience_s, _set, answer, Unavailable(f"{place}: no answer within {patience_s:.0f} s"))
        there_s, fate = self.delay_s() + spell.slow_s * self.random.random(), self.random.random()
        if fate < spell.fails:
            # Of several effects some may have happened before the failure.
            some = [effect for effect in effects if len(effects) > 1 and self.random.random() < 0.5]
            self._send(some, there_s, None)
            self._fail(place, answer, there_s)
        elif fate < spell.fails + spell.unanswered:
            self._send(effects, there_s, None)
            self._fail(place, answer, there_s + SPREAD_S + self.delay_s())
        elif late and fate < spell.fails + spell.unanswered + spell.late:
            for effect in effects:
                late_s = there_s + self._lateness_s()
                self.late_until_s = max(self.late_until_s, self.loop.time() + late_s)
                self._send([effect], late_s, None)
            self._fail(place, answer, there_s)
        else:
            self._send(effects, there_s, answer)
        return answer

    def _send(self, effects: Sequence[Callable[[], Any]], there_s: float, answer: asyncio.Future[Any] | None) -> None:
        if len(effects) == 1:
            self.loop.outside(there_s, self._take_effect, effects[0], answer)
            return
        left = len(effects)

        def last(effect: Callable[[], Any]) -> None:
            nonlocal left
            left -= 1
            self._take_effect(effect, None if left else answer)

        for effect in effects:
            self.loop.outside(there_s + SPREAD_S * self.random.random(), last, effect)

    def _spell(self, place: str) -> Spell | None:
        now_s = self.loop.time()
        for spell in self.spells:
            if spell.place == place and spell.begins_s <= now_s < spell.ends_s:
                return spell
        return None

    def _lateness_s(self) -> float:
        """Seconds mostly, sometimes minutes."""
        return self.random.choice((0.05, 0.5, 3.0, 15.0, LONGEST_LATE_S)) * self.random.random()

    def _fail(self, place: str, answer: asyncio.Future[Any], after_s: float) -> None:
        """Tell of an error soon, or only when the caller's patience ends."""
        if self.random.random() < 0.7:
            self.loop.outside(after_s, _set, answer, Unavailable(f"{place}: the connection was lost"))

    def _take_effect(self, effect: Callable[[], Any], answer: asyncio.Future[Any] | None) -> None:
        if self.over:
            return
        try:
            result = effect()
        except Exception as error:  # noqa: BLE001 - the server's answer
            result = error
        if answer is not None:
            self.loop.outside(self.delay_s(), _set, answer, result)


def _set(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)
