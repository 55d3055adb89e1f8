"""Answers of all configurations that were asked: nothing is asked twice."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from freki.operators.evaluate import Asked
from freki.schemas.query_options import QueryOptions
from freki.streams.evaluate.configuration import Configuration
from freki.streams.evaluate.examine import Examiner, Served, told
from freki.streams.evaluate.pose import Posed
from freki.streams.evaluate.timing import time_in_turn

Plan = Mapping[str, Mapping[Asked, Configuration]]
"""By value: which questions, each with all that it turns."""
TIMED = 8
"""Questions of each set that are timed."""
TimesBy = dict[str, dict[Asked, float]]
"""Milliseconds, by value and question."""


class OpenSet(Protocol):
    """Opens the place of a set."""

    async def __call__(self, name: str, *, cold: bool) -> Examiner:
        """Give who asks there. cold: where no answer is faster for what was asked before."""


_Key = tuple[Asked, frozenset[tuple[str, object]]]


class AnswerLog:
    """Visits one set after another, since each may have a stack of its own, and asks there what is not known yet."""

    def __init__(
        self,
        posed: Mapping[Asked, Posed],
        *,
        visit: OpenSet,
        defaults: QueryOptions,
        clock_ns: Callable[[], int],
        advance: Callable[[], None],
    ) -> None:
        self._posed = posed
        self._visit = visit
        self._defaults = defaults
        self._clock_ns = clock_ns
        self._advance = advance
        self._answers: dict[_Key, Served] = {}
        self._last = ""

    def asks(self, plans: Sequence[Plan]) -> int:
        """Count what these plans would ask."""
        return len(self._unknown(plans))

    async def gather(self, plans: Sequence[Plan], *, timed: Sequence[Plan] = ()) -> list[TimesBy]:
        """Ask what the plans lack, some at once; then ask the timed plans, one question after another.

        Raises TimeoutError where an answer does not come.
        """
        unknown = self._unknown(plans)
        times: list[TimesBy] = [{value: {} for value in plan} for plan in timed]
        for name in self._route(
            {asked.set_name for plan in (*plans, *timed) for each in plan.values() for asked in each}
        ):
            here = {key: configuration for key, configuration in unknown.items() if key[0].set_name == name}
            if here:
                await self._ask(await self._visit(name, cold=False), here)
            for plan, found in zip(timed, times, strict=True):
                await self._time(await self._visit(name, cold=True), plan, name, found)
        return times

    def figures(self, plan: Plan) -> dict[str, dict[Asked, Mapping[str, float]]]:
        """Give what is known of each value and question; all that was gathered is."""
        return {
            value: {
                asked: self._answers[self._key(asked, configuration)].figures for asked, configuration in each.items()
            }
            for value, each in plan.items()
        }

    def remarks(self) -> list[str]:
        """Say what should be known of the answers."""
        return told([answer.notices for answer in self._answers.values()])

    async def _ask(self, examiner: Examiner, unknown: Mapping[_Key, Configuration]) -> None:
        # All that is asked of one question at once: most of its candidates are the same, and remembered.
        keys = sorted(unknown, key=lambda key: key[0])
        asks = [(self._posed[key[0]].question, unknown[key]) for key in keys]
        self._answers.update(zip(keys, await examiner.served(asks, advance=self._advance), strict=True))

    async def _time(self, examiner: Examiner, plan: Plan, name: str, found: TimesBy) -> None:
        values = list(plan)
        questions = sorted(asked for asked in plan[values[0]] if asked.set_name == name)
        times = await time_in_turn(
            questions,
            values,
            lambda asked, value: examiner.answer(self._posed[asked].question, plan[value][asked]),
            clock_ns=self._clock_ns,
            advance=self._advance,
        )
        for value, taken in times.items():
            found[value].update(taken)

    def _unknown(self, plans: Sequence[Plan]) -> dict[_Key, Configuration]:
        wanted = {
            self._key(asked, configuration): configuration
            for plan in plans
            for each in plan.values()
            for asked, configuration in each.items()
        }
        return {key: configuration for key, configuration in wanted.items() if key not in self._answers}

    def _key(self, asked: Asked, configuration: Configuration) -> _Key:
        """Call a configuration by what differs from the defaults: spelling out a default asks the same."""
        posed = self._posed[asked]
        overrides = configuration.overrides.items()
        return asked, frozenset(
            (name, value)
            for name, value in overrides
            if value != self._defaults.held(name, keyword=posed.keyword, exact=posed.exact)
        )

    def _route(self, names: set[str]) -> list[str]:
        """Begin where the last visit ended: that stack still runs."""
        route = sorted(names, key=lambda name: (name != self._last, name))
        self._last = route[-1] if route else self._last
        return route
