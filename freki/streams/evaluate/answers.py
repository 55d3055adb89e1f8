"""Cache of answers by question and configuration: no query runs twice."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from freki.operators.evaluate import QuestionKey
from freki.schemas.query_options import QueryOptions
from freki.streams.evaluate.configuration import Configuration
from freki.streams.evaluate.examine import Examiner, ServedAnswer, notice_summaries
from freki.streams.evaluate.questions import TunedQuestion
from freki.streams.evaluate.timing import time_in_turn

Plan = Mapping[str, Mapping[QuestionKey, Configuration]]
"""Queries to run: by value and question, the full configuration."""
TIMED = 8
"""Number of timed questions of each set."""
TimesBy = dict[str, dict[QuestionKey, float]]
"""Latencies in milliseconds, by value and question."""


class OpenSet(Protocol):
    """Opener of the stack of a set."""

    async def __call__(self, name: str, *, cold: bool) -> Examiner:
        """Return the examiner of a set. cold: without caches, so that repeated queries are no faster."""


_Key = tuple[QuestionKey, frozenset[tuple[str, object]]]


class AnswerLog:
    """Cache of answers that runs missing queries, set by set, since each set may need its own stack."""

    def __init__(
        self,
        tuned: Mapping[QuestionKey, TunedQuestion],
        *,
        visit: OpenSet,
        defaults: QueryOptions,
        clock_ns: Callable[[], int],
        advance: Callable[[], None],
    ) -> None:
        self._tuned = tuned
        self._visit = visit
        self._defaults = defaults
        self._clock_ns = clock_ns
        self._advance = advance
        self._answers: dict[_Key, ServedAnswer] = {}
        self._last = ""

    def asks(self, plans: Sequence[Plan]) -> int:
        """Return the number of queries that these plans would run."""
        return len(self._unknown(plans))

    async def gather(self, plans: Sequence[Plan], *, timed: Sequence[Plan] = ()) -> list[TimesBy]:
        """Run the missing queries of the plans concurrently, then the timed plans one query at a time.

        Returns the latencies of each timed plan. Raises TimeoutError if an answer does not arrive.
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

    def figures(self, plan: Plan) -> dict[str, dict[QuestionKey, Mapping[str, float]]]:
        """Return the figures of a gathered plan by value and question."""
        return {
            value: {
                asked: self._answers[self._key(asked, configuration)].figures for asked, configuration in each.items()
            }
            for value, each in plan.items()
        }

    def remarks(self) -> list[str]:
        """Return remarks on the answers, from their notices."""
        return notice_summaries([answer.notices for answer in self._answers.values()])

    async def _ask(self, examiner: Examiner, unknown: Mapping[_Key, Configuration]) -> None:
        # Order by question: most rerank scores of a question then come from the cache.
        keys = sorted(unknown, key=lambda key: key[0])
        asks = [(self._tuned[key[0]].question, unknown[key]) for key in keys]
        self._answers.update(zip(keys, await examiner.served(asks, advance=self._advance), strict=True))

    async def _time(self, examiner: Examiner, plan: Plan, name: str, found: TimesBy) -> None:
        values = list(plan)
        questions = sorted(asked for asked in plan[values[0]] if asked.set_name == name)
        times = await time_in_turn(
            questions,
            values,
            lambda asked, value: examiner.answer(self._tuned[asked].question, plan[value][asked]),
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

    def _key(self, asked: QuestionKey, configuration: Configuration) -> _Key:
        """Return the cache key: only overrides that differ from the defaults change an answer."""
        tuned = self._tuned[asked]
        overrides = configuration.overrides.items()
        return asked, frozenset(
            (name, value)
            for name, value in overrides
            if value != self._defaults.held(name, keyword=tuned.keyword, exact=tuned.exact)
        )

    def _route(self, names: set[str]) -> list[str]:
        """Order the sets, beginning with the last one visited: its stack still runs."""
        route = sorted(names, key=lambda name: (name != self._last, name))
        self._last = route[-1] if route else self._last
        return route
