"""Turns one option after the other, and keeps a value where it earns its place.

First a survey: every value alone, on the first part of the questions, and its times. Then each option with the values
that the survey left in the race, on all questions, the other options as the steps before left them. An option is turned
once more, around where it stands, if another one moved after it. In the end all that moved is asked together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from freki.operators.evaluate import Asked, Figure, cross_validate, first_part, folds_of, survivors
from freki.schemas.names import record
from freki.streams.evaluate.answers import TIMED, AnswerLog, Plan, TimesBy
from freki.streams.evaluate.configuration import Configuration
from freki.streams.evaluate.pose import Posed
from freki.streams.evaluate.trials import KEYWORD_ALPHA, Turn
from freki.streams.evaluate.tuning import Check, Tried, TuningStep
from freki.streams.evaluate.worth import Answers, Worth

SCREENED_SHARE = 1 / 3
LEAST_SCREENED = 25
"""Questions of each set that every value is asked."""

Found = Mapping[str, Answers]
"""By value."""


@record
class Survey:
    """What is known of an option's values before any option moves."""

    found: Found
    """Of the first part of the questions."""
    times: Mapping[str, Sequence[float]]
    left: tuple[str, ...]
    """Values that stay in the race."""


class Tuner:
    """Finds what options are best set to. The ledger knows the questions that the tuner asks."""

    def __init__(
        self,
        posed: Mapping[Asked, Posed],
        turns: Sequence[Turn],
        *,
        ledger: AnswerLog,
        figure: Figure,
        folds: int,
        seed: int,
        expect: Callable[[int], None],
    ) -> None:
        """Take the questions to choose by; `expect` is told how many asks are still to come."""
        self._posed = posed
        self._ledger = ledger
        self._worth = Worth(figure, seed=seed)
        self._folds = folds
        self._seed = seed
        self._expect = expect
        self._fold_of = folds_of(posed, folds=folds, seed=seed)
        self.left_out: list[str] = []
        self._turns = [turn for turn in turns if self._can_be_tuned(turn)]
        self.moved: dict[str, Configuration] = {}
        """By option."""

    async def tune(self) -> list[TuningStep]:
        """Turn every option."""
        surveys = await self._survey()
        steps: list[TuningStep] = []
        met: dict[str, dict[str, Configuration]] = {}
        for place, turn in enumerate(self._turns):
            self._foresee(self._turns[place:], surveys)
            met[turn.name] = self._others(turn)
            steps.append(await self._step(turn, surveys[turn.name], turn.values, again=False))
        for turn in self._turns:
            if self._others(turn) != met[turn.name]:
                again = await self._step(turn, surveys[turn.name], self._around(turn), again=True)
                steps.append(again)
        return steps

    async def check(self, posed: Mapping[Asked, Posed], *, fresh: bool) -> list[Check]:
        """Ask all that moved together, and what is set; of questions and of shortened ones, where these differ."""
        checks = []
        for shortened in (False, True):
            questions = [asked for asked, each in posed.items() if each.shortened is shortened]
            plan = {
                "set": {asked: Configuration(text="", overrides={}) for asked in questions},
                "moved": {asked: self._together(self.moved, posed[asked]) for asked in questions},
            }
            if any(each.overrides for each in plan["moved"].values()):
                checks.append(await self._checked(plan, fresh=fresh, shortened=shortened))
        return checks

    def _can_be_tuned(self, turn: Turn) -> bool:
        count = len(self._questions(turn))
        if count < self._folds:
            self.left_out.append(f"{turn.name}: {count} questions, {self._folds} folds need as many at least")
        return count >= self._folds

    def _questions(self, turn: Turn) -> list[Asked]:
        """Give the questions that an option is tuned on: shortened ones only for the option that they are there for."""
        return [
            asked
            for asked, each in self._posed.items()
            if turn.concerns(keyword=each.keyword, exact=each.exact)
            and (turn.name == KEYWORD_ALPHA or not each.shortened)
        ]

    async def _survey(self) -> dict[str, Survey]:
        plans, timed = [], []
        for turn in self._turns:
            questions = self._questions(turn)
            first = first_part(questions, share=SCREENED_SHARE, least=LEAST_SCREENED, seed=self._seed)
            few = first_part(questions, share=0, least=TIMED, seed=self._seed)
            plans.append(self._plan(turn, turn.values, first))
            timed.append(self._plan(turn, turn.values, few))
        self._foresee(self._turns, {}, plans=plans, timed=timed)
        times = await self._ledger.gather(plans, timed=timed)
        return {
            turn.name: self._surveyed(turn, plan, found)
            for turn, plan, found in zip(self._turns, plans, times, strict=True)
        }

    def _surveyed(self, turn: Turn, plan: Plan, times: TimesBy) -> Survey:
        found = self._ledger.figures(plan)
        left = survivors(self._worth.scores(found), present=turn.present.text, fold_of=self._fold_of, folds=self._folds)
        return Survey(found=found, times=_in_order(times), left=tuple(left))

    async def _step(self, turn: Turn, survey: Survey, values: Sequence[Configuration], *, again: bool) -> TuningStep:
        present = self.moved.get(turn.name, turn.present).text
        asked = [value for value in values if value.text in survey.left or value.text == present]
        questions = self._questions(turn)
        plan = self._plan(turn, asked, questions)
        await self._ledger.gather([plan])
        found = self._ledger.figures(plan)
        scores = self._worth.scores(found)
        choice = cross_validate(
            scores,
            screened=self._worth.scores({value: survey.found[value] for value in scores}),
            present=present,
            times=survey.times,
            fold_of=self._fold_of,
            folds=self._folds,
            seed=self._seed,
        )
        others = ", ".join(value.text for value in self._others(turn).values())
        if choice.moves:
            self._move(turn, choice.value)
        return TuningStep(
            option=turn.name,
            again=again,
            questions=len(questions),
            shortened=any(self._posed[each].shortened for each in questions),
            others=others,
            present=present,
            values=tuple(self._tried(turn, found, survey, present=present, again=again)),
            choice=choice,
        )

    def _move(self, turn: Turn, chosen: str) -> None:
        self.moved.pop(turn.name, None)
        if chosen != turn.present.text:
            self.moved[turn.name] = next(value for value in turn.values if value.text == chosen)

    def _tried(self, turn: Turn, found: Found, survey: Survey, *, present: str, again: bool) -> Iterator[Tried]:
        """Describe each value that was asked, and at first those too that the survey dropped."""
        for value in (each.text for each in turn.values):
            dropped = value not in found
            if dropped and again:
                continue
            # A dropped value was asked while no option had moved: its gain is over what was present then.
            source = survey.found if dropped else found
            yield self._worth.tried(
                value, source[value], present=present, beside=source[present], times=survey.times, dropped=dropped
            )

    async def _checked(self, plan: Plan, *, fresh: bool, shortened: bool) -> Check:
        few = first_part(plan["set"], share=0, least=TIMED, seed=self._seed)
        timed = {value: {asked: each[asked] for asked in few} for value, each in plan.items()}
        self._expect(self._ledger.asks([plan]) + _size(timed))
        (found_times,) = await self._ledger.gather([plan], timed=[timed])
        return self._worth.checked(
            self._ledger.figures(plan),
            _in_order(found_times),
            moved="moved",
            present="set",
            fresh=fresh,
            shortened=shortened,
        )

    def _plan(self, turn: Turn, values: Iterable[Configuration], questions: Iterable[Asked]) -> Plan:
        others = self._others(turn)
        asked = list(questions)
        return {
            value.text: {each: self._together({**others, turn.name: value}, self._posed[each]) for each in asked}
            for value in values
        }

    def _together(self, chosen: Mapping[str, Configuration], posed: Posed) -> Configuration:
        """Join what is turned for a question."""
        overrides = [
            chosen[turn.name].overrides.items()
            for turn in self._turns
            if turn.name in chosen and turn.concerns(keyword=posed.keyword, exact=posed.exact)
        ]
        return Configuration(text="", overrides=dict(chain.from_iterable(overrides)))

    def _others(self, turn: Turn) -> dict[str, Configuration]:
        return {name: value for name, value in self.moved.items() if name != turn.name}

    def _around(self, turn: Turn) -> Sequence[Configuration]:
        """Give the values beside the one that an option stands at, and that one."""
        at = turn.values.index(self.moved.get(turn.name, turn.present))
        return turn.values[max(at - 1, 0) : at + 2]

    def _foresee(
        self,
        turns: Sequence[Turn],
        surveys: Mapping[str, Survey],
        *,
        plans: Sequence[Plan] = (),
        timed: Sequence[Plan] = (),
    ) -> None:
        """Tell how many asks are to come, if no option moves."""
        left = {name: survey.left for name, survey in surveys.items()}
        coming = [
            self._plan(
                turn,
                [value for value in turn.values if value.text in left.get(turn.name, (value.text,))],
                self._questions(turn),
            )
            for turn in turns
        ]
        self._expect(self._ledger.asks([*plans, *coming]) + sum(map(_size, timed)))


def _in_order(times: TimesBy) -> dict[str, list[float]]:
    return {value: [each[asked] for asked in sorted(each)] for value, each in times.items()}


def _size(timed: Plan) -> int:
    """Count asks, with those that warm up."""
    return sum(len(each) + len({asked.set_name for asked in each}) for each in timed.values())
