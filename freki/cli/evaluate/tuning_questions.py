"""Questions of a tuning, and the stacks that answer them."""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Self

from rich.progress import Progress

from freki.cli.context import fail
from freki.cli.evaluate.evaluate import MAX_IN_FLIGHT, sample
from freki.cli.evaluate.place import open_place
from freki.infra.settings import Settings
from freki.operators.evaluate import Figure, QuestionKey
from freki.operators.evaluate.figures import EMPTY, FACTS, SPANS
from freki.schemas import QueryId
from freki.schemas.evaluation import EvaluationSet, Question
from freki.schemas.names import record
from freki.streams.evaluate.examine import Examiner
from freki.streams.evaluate.questions import TunedQuestion, keyword_questions, tuned_questions
from freki.streams.wire.connect import open_asker
from freki.streams.wire.from_settings import wall_clock

NO_CACHES = {"FREKI_RETRIEVAL__CACHE_MB": "0"}
"""Environment without caches: repeated queries must not become faster."""


@record
class Material:
    """A set with its tuning questions and its held-out questions."""

    examined: EvaluationSet
    tuned: Mapping[QuestionKey, TunedQuestion]
    held_out: Mapping[QuestionKey, TunedQuestion]


class Places:
    """Opens the stack of one set at a time: several stacks at once would multiply the memory."""

    def __init__(self, settings: Settings, sets: Sequence[EvaluationSet], progress: Progress, *, running: bool) -> None:
        self._settings = settings
        self._sets = {one.name: one for one in sets}
        self._progress = progress
        self._running = running
        self._exit = AsyncExitStack()
        self._at: tuple[tuple[str, bool], Examiner] | None = None
        self.notes: dict[str, tuple[str, ...]] = {}
        """Remarks on the indexing of each set."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def visit(self, name: str, *, cold: bool) -> Examiner:
        """Return the examiner of a set, on the stack that holds its documents; cold: without caches."""
        if self._at is None or self._at[0] != (name, cold):
            # Opening a stack shows its own bars.
            self._progress.stop()
            await self._exit.aclose()
            self._at = ((name, cold), await self._open(self._sets[name], NO_CACHES if cold else {}))
            self._progress.start()
        return self._at[1]

    async def _open(self, one: EvaluationSet, environment: Mapping[str, str]) -> Examiner:
        place = await self._exit.enter_async_context(
            open_place(self._settings, one.corpus, running=self._running, fresh=False, environment=environment)
        )
        self.notes.setdefault(one.name, place.notes)
        asker = await self._exit.enter_async_context(open_asker(place.settings))
        return Examiner(
            asker,
            tenant=place.tenant,
            defaults=place.settings.retrieval.options,
            threshold=0.0,
            max_in_flight=MAX_IN_FLIGHT,
            now=wall_clock,
            new_id=lambda: QueryId(str(uuid.uuid4())),
        )


def material_of(one: EvaluationSet, figure: Figure, queries: int | None, seed: int, *, shorten: bool) -> Material:
    """Sample the questions of a set that have the figure, and as many held-out ones; end the command if there are none.

    shorten: add questions shortened to keywords if the set has no keyword query.
    """
    questions = [question for question in one.questions if _shows(question, figure)]
    if not questions:
        fail(f"{one.name}: no question has {figure.name}", code=2)
    chosen = sample(questions, queries, seed)
    names = {each.question_id for each in chosen}
    held_out = [each for each in sample(questions, 2 * len(chosen), seed) if each.question_id not in names]
    return Material(
        examined=one,
        tuned=_tuned(one, chosen, shorten=shorten),
        held_out=_tuned(one, held_out, shorten=shorten),
    )


def _shows(question: Question, figure: Figure) -> bool:
    """Return whether an answer to this question has the figure."""
    special = {EMPTY: question.is_answerable, SPANS: bool(question.spans), FACTS: bool(question.facts)}
    return special.get(figure.name, any(grade > 0 for grade in (question.judgements or {}).values()))


def _tuned(one: EvaluationSet, questions: Sequence[Question], *, shorten: bool) -> dict[QuestionKey, TunedQuestion]:
    found = tuned_questions(questions)
    if shorten and not any(each.keyword for each in found):
        found += keyword_questions(questions, one.corpus or ())
    return {QuestionKey(one.name, each.question.question_id): each for each in found}
