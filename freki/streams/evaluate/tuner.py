"""Tune options one after the other, keeping new values only if they gain.

A survey first measures every value alone: quality on the first part of the questions, and latency. Then each option is
tuned on all questions with the values that survived, the other options as chosen before. If another option changed
afterwards, it is tuned once more with the adjacent values. A check finally measures all changes together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from freki.operators.evaluate import Figure, QuestionKey, cross_validate, first_part, folds_of, survivors
from freki.schemas.names import record
from freki.streams.evaluate.answers import TIMED, AnswerLog, Plan, TimesBy
from freki.streams.evaluate.configuration import Configuration
from freki.streams.evaluate.questions import TunedQuestion
from freki.streams.evaluate.scorer import Answers, Scorer
from freki.streams.evaluate.trials import KEYWORD_ALPHA, TunedOption
from freki.streams.evaluate.tuning import Check, TriedValue, TuningStep

SCREENED_SHARE = 1 / 3
"""Share of the questions in the survey."""
LEAST_SCREENED = 25
"""Minimum number of questions of each set in the survey."""

Found = Mapping[str, Answers]
"""Figures by value."""


@record
class Survey:
    """Results of the values of an option while all other options are as set."""

    found: Found
    """Figures of the first part of the questions."""
    times: Mapping[str, Sequence[float]]
    left: tuple[str, ...]
    """Surviving values."""


class Tuner:
    """Finds the best values of options. The ledger must know the questions of the tuner."""

    def __init__(
        self,
        tuned: Mapping[QuestionKey, TunedQuestion],
        options: Sequence[TunedOption],
        *,
        ledger: AnswerLog,
        figure: Figure,
        folds: int,
        seed: int,
        expect: Callable[[int], None],
    ) -> None:
        """Take the questions to tune on; `expect` is called with the number of remaining queries."""
        self._tuned = tuned
        self._ledger = ledger
        self._scorer = Scorer(figure, seed=seed)
        self._folds = folds
        self._seed = seed
        self._expect = expect
        self._fold_of = folds_of(tuned, folds=folds, seed=seed)
        self.left_out: list[str] = []
        self._options = [option for option in options if self._can_be_tuned(option)]
        self.changed: dict[str, Configuration] = {}
        """Changed values by option."""

    async def tune(self) -> list[TuningStep]:
        """Tune every option; return the steps."""
        surveys = await self._survey()
        steps: list[TuningStep] = []
        met: dict[str, dict[str, Configuration]] = {}
        for place, option in enumerate(self._options):
            self._expect_queries(self._options[place:], surveys)
            met[option.name] = self._others(option)
            steps.append(await self._step(option, surveys[option.name], option.values, again=False))
        for option in self._options:
            if self._others(option) != met[option.name]:
                again = await self._step(option, surveys[option.name], self._around(option), again=True)
                steps.append(again)
        return steps

    async def check(self, tuned: Mapping[QuestionKey, TunedQuestion], *, fresh: bool) -> list[Check]:
        """Compare all changes together with the settings, separately on questions and on shortened ones."""
        checks = []
        for shortened in (False, True):
            questions = [asked for asked, each in tuned.items() if each.shortened is shortened]
            plan = {
                "set": {asked: Configuration(text="", overrides={}) for asked in questions},
                "changed": {asked: self._together(self.changed, tuned[asked]) for asked in questions},
            }
            if any(each.overrides for each in plan["changed"].values()):
                checks.append(await self._checked(plan, fresh=fresh, shortened=shortened))
        return checks

    def _can_be_tuned(self, option: TunedOption) -> bool:
        count = len(self._questions(option))
        if count < self._folds:
            self.left_out.append(f"{option.name}: {count} questions are fewer than the {self._folds} folds")
        return count >= self._folds

    def _questions(self, option: TunedOption) -> list[QuestionKey]:
        """Return the questions to tune an option on; shortened ones only for the alpha of keyword queries."""
        return [
            asked
            for asked, each in self._tuned.items()
            if option.concerns(keyword=each.keyword, exact=each.exact)
            and (option.name == KEYWORD_ALPHA or not each.shortened)
        ]

    async def _survey(self) -> dict[str, Survey]:
        plans, timed = [], []
        for option in self._options:
            questions = self._questions(option)
            first = first_part(questions, share=SCREENED_SHARE, least=LEAST_SCREENED, seed=self._seed)
            few = first_part(questions, share=0, least=TIMED, seed=self._seed)
            plans.append(self._plan(option, option.values, first))
            timed.append(self._plan(option, option.values, few))
        self._expect_queries(self._options, {}, plans=plans, timed=timed)
        times = await self._ledger.gather(plans, timed=timed)
        return {
            option.name: self._surveyed(option, plan, found)
            for option, plan, found in zip(self._options, plans, times, strict=True)
        }

    def _surveyed(self, option: TunedOption, plan: Plan, times: TimesBy) -> Survey:
        found = self._ledger.figures(plan)
        left = survivors(
            self._scorer.scores(found), present=option.present.text, fold_of=self._fold_of, folds=self._folds
        )
        return Survey(found=found, times=_in_order(times), left=tuple(left))

    async def _step(
        self, option: TunedOption, survey: Survey, values: Sequence[Configuration], *, again: bool
    ) -> TuningStep:
        present = self.changed.get(option.name, option.present).text
        asked = [value for value in values if value.text in survey.left or value.text == present]
        questions = self._questions(option)
        plan = self._plan(option, asked, questions)
        await self._ledger.gather([plan])
        found = self._ledger.figures(plan)
        scores = self._scorer.scores(found)
        choice = cross_validate(
            scores,
            screened=self._scorer.scores({value: survey.found[value] for value in scores}),
            present=present,
            times=survey.times,
            fold_of=self._fold_of,
            folds=self._folds,
            seed=self._seed,
        )
        others = ", ".join(value.text for value in self._others(option).values())
        if choice.moves:
            self._change(option, choice.value)
        return TuningStep(
            option=option.name,
            again=again,
            questions=len(questions),
            shortened=any(self._tuned[each].shortened for each in questions),
            others=others,
            present=present,
            values=tuple(self._tried(option, found, survey, present=present, again=again)),
            choice=choice,
        )

    def _change(self, option: TunedOption, chosen: str) -> None:
        self.changed.pop(option.name, None)
        if chosen != option.present.text:
            self.changed[option.name] = next(value for value in option.values if value.text == chosen)

    def _tried(
        self, option: TunedOption, found: Found, survey: Survey, *, present: str, again: bool
    ) -> Iterator[TriedValue]:
        """Yield each measured value and, in the first round, those dropped by the survey."""
        for value in (each.text for each in option.values):
            dropped = value not in found
            if dropped and again:
                continue
            # A dropped value was measured before any change: its gain is relative to the settings.
            source = survey.found if dropped else found
            yield self._scorer.tried(
                value, source[value], present=present, beside=source[present], times=survey.times, dropped=dropped
            )

    async def _checked(self, plan: Plan, *, fresh: bool, shortened: bool) -> Check:
        few = first_part(plan["set"], share=0, least=TIMED, seed=self._seed)
        timed = {value: {asked: each[asked] for asked in few} for value, each in plan.items()}
        self._expect(self._ledger.asks([plan]) + _size(timed))
        (found_times,) = await self._ledger.gather([plan], timed=[timed])
        return self._scorer.checked(
            self._ledger.figures(plan),
            _in_order(found_times),
            changed="changed",
            present="set",
            fresh=fresh,
            shortened=shortened,
        )

    def _plan(self, option: TunedOption, values: Iterable[Configuration], questions: Iterable[QuestionKey]) -> Plan:
        others = self._others(option)
        asked = list(questions)
        return {
            value.text: {each: self._together({**others, option.name: value}, self._tuned[each]) for each in asked}
            for value in values
        }

    def _together(self, chosen: Mapping[str, Configuration], tuned: TunedQuestion) -> Configuration:
        """Merge the chosen values that apply to a question."""
        overrides = [
            chosen[option.name].overrides.items()
            for option in self._options
            if option.name in chosen and option.concerns(keyword=tuned.keyword, exact=tuned.exact)
        ]
        return Configuration(text="", overrides=dict(chain.from_iterable(overrides)))

    def _others(self, option: TunedOption) -> dict[str, Configuration]:
        return {name: value for name, value in self.changed.items() if name != option.name}

    def _around(self, option: TunedOption) -> Sequence[Configuration]:
        """Return the current value of an option and those adjacent to it."""
        at = option.values.index(self.changed.get(option.name, option.present))
        return option.values[max(at - 1, 0) : at + 2]

    def _expect_queries(
        self,
        options: Sequence[TunedOption],
        surveys: Mapping[str, Survey],
        *,
        plans: Sequence[Plan] = (),
        timed: Sequence[Plan] = (),
    ) -> None:
        """Report the number of remaining queries, assuming that no option changes."""
        left = {name: survey.left for name, survey in surveys.items()}
        coming = [
            self._plan(
                option,
                [value for value in option.values if value.text in left.get(option.name, (value.text,))],
                self._questions(option),
            )
            for option in options
        ]
        self._expect(self._ledger.asks([*plans, *coming]) + sum(map(_size, timed)))


def _in_order(times: TimesBy) -> dict[str, list[float]]:
    return {value: [each[asked] for asked in sorted(each)] for value, each in times.items()}


def _size(timed: Plan) -> int:
    """Return the number of timed queries, including warm-up."""
    return sum(len(each) + len({asked.set_name for asked in each}) for each in timed.values())
