"""What a tuning asks, and where."""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from rich.progress import Progress

from freki.cli.context import fail
from freki.cli.evaluate.evaluate import AT_ONCE, sample
from freki.cli.evaluate.place import open_place
from freki.infra.settings import Settings
from freki.operators.evaluate import Asked, Figure
from freki.operators.evaluate.figures import EMPTY, FACTS, SPANS
from freki.schemas import QueryId
from freki.schemas.evaluation import EvaluationSet, Question
from freki.schemas.names import record
from freki.streams.evaluate.examine import Examiner
from freki.streams.evaluate.pose import Posed, keywords, pose
from freki.streams.wire.connect import open_asker
from freki.streams.wire.from_settings import wall_clock

FORGETFUL = {"FREKI_MODELS__RERANK_CACHE_MB": "0", "FREKI_RETRIEVAL__CACHE_MB": "0"}
"""What is timed several times must not become faster by it."""


@record
class Material:
    """A set with the questions to choose by, and those to check the choice on."""

    examined: EvaluationSet
    posed: Mapping[Asked, Posed]
    fresh: Mapping[Asked, Posed]


class Places:
    """Opens the place of one set at a time: several stacks at once would take several times the memory."""

    def __init__(self, settings: Settings, sets: Sequence[EvaluationSet], progress: Progress, *, running: bool) -> None:
        self._settings = settings
        self._sets = {one.name: one for one in sets}
        self._progress = progress
        self._running = running
        self._exit = AsyncExitStack()
        self._at: tuple[tuple[str, bool], Examiner] | None = None
        self.notes: dict[str, tuple[str, ...]] = {}
        """What became of the documents of each set."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def visit(self, name: str, *, cold: bool) -> Examiner:
        """Give who asks the questions of a set, where its documents are; cold: its reranker remembers nothing."""
        if self._at is None or self._at[0] != (name, cold):
            # Opening shows bars of its own.
            self._progress.stop()
            await self._exit.aclose()
            self._at = ((name, cold), await self._open(self._sets[name], FORGETFUL if cold else {}))
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
            at_once=AT_ONCE,
            now=wall_clock,
            new_id=lambda: QueryId(str(uuid.uuid4())),
        )


def material_of(one: EvaluationSet, figure: Figure, queries: int | None, seed: int, *, shorten: bool) -> Material:
    """Draw the questions of a set that have the figure, and as many more for the check; ends the command for none.

    shorten: to keywords too, where the set has no keyword query.
    """
    questions = [question for question in one.questions if _shows(question, figure)]
    if not questions:
        fail(f"{one.name}: no question of it has {figure.name}", code=2)
    chosen = sample(questions, queries, seed)
    names = {each.question_id for each in chosen}
    fresh = [each for each in sample(questions, 2 * len(chosen), seed) if each.question_id not in names]
    return Material(
        examined=one,
        posed=_posed(one, chosen, shorten=shorten),
        fresh=_posed(one, fresh, shorten=shorten),
    )


def _shows(question: Question, figure: Figure) -> bool:
    """Say whether an answer to this question has the figure."""
    told = {EMPTY: question.is_answerable, SPANS: bool(question.spans), FACTS: bool(question.facts)}
    return told.get(figure.name, any(grade > 0 for grade in (question.judgements or {}).values()))


def _posed(one: EvaluationSet, questions: Sequence[Question], *, shorten: bool) -> dict[Asked, Posed]:
    found = pose(questions)
    if shorten and not any(each.keyword for each in found):
        found += keywords(questions, one.corpus or ())
    return {Asked(one.name, each.question.question_id): each for each in found}
