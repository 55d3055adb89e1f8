"""Run queries through the real topics and judge the answers."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from freki.client.exchange import patience_of
from freki.client.tasks import cancel_and_wait
from freki.operators.evaluate import (
    RankedDocument,
    false_positives,
    judge_rankings,
    place_in_sections,
    rank_documents,
    share_found,
)
from freki.operators.evaluate.figures import EMPTY, FACTS, FALSE_POSITIVES, HIT_1, HIT_5, RECALL_100, SPANS
from freki.schemas import ContextQuery, ContextResult, DocumentId, Notice, NoticeKind, QueryId, TenantId, Timestamp
from freki.schemas.evaluation import Question
from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions
from freki.streams.evaluate.configuration import Configuration
from freki.streams.evaluate.result import Answered, KeptRank, Run
from freki.streams.ports import QueryClient

DEPTH = 200
"""Maximum number of hits of a query."""
CUTOFF = 100
"""Rank of the last document that the deepest figure considers."""
KEPT = 10
"""Number of documents of a ranking kept for reports."""
EXCERPT_CHARS = 90
"""Length of the excerpt in a document's title, in characters."""
DEADLINE_MS = 180_000
"""Default deadline, in milliseconds: long, so that quality does not depend on the load of the machine."""
CALIBRATED = frozenset({"remote", "local"})
"""Rerankers whose scores are comparable between questions."""
T = TypeVar("T")

_HITS = {HIT_1: 1, HIT_5: 5}
_REPORTED = frozenset({NoticeKind.DEGRADED, NoticeKind.SKIPPED, NoticeKind.FRESHNESS, NoticeKind.REJECTED})


@record
class Reply:
    """Answer to a question, reduced to the input of the figures."""

    language: str
    query_type: str
    ranking: tuple[RankedDocument, ...]
    is_cut: bool
    """Whether the maximum number of hits held fewer documents than the deepest figure considers."""
    figures: Mapping[str, float]
    """Figures that do not judge a ranking."""
    notices: tuple[Notice, ...]


class ServedAnswer(NamedTuple):
    """Answer as a service gets it."""

    figures: Mapping[str, float]
    notices: tuple[Notice, ...]
    """Notices relevant to the figures."""


class Examiner:
    """Runs queries as a service would, and judges the answers.

    A run asks each question twice: as it is, and for the maximum number of hits. The first answer supplies context,
    scores and first ranks; documents found only by the second follow, so that Recall@100 can be computed. The second
    alone does not suffice: diversification chooses among twice as many candidates as hits, and on one collection the
    first 8 hits differed for a third of the questions.
    """

    def __init__(
        self,
        asker: QueryClient,
        *,
        tenant: TenantId,
        defaults: QueryOptions,
        threshold: float,
        max_in_flight: int,
        now: Callable[[], Timestamp],
        new_id: Callable[[], QueryId],
    ) -> None:
        self._asker = asker
        self._tenant = tenant
        self._defaults = defaults
        self._threshold = threshold
        self._max_in_flight = max_in_flight
        self._now = now
        self._new_id = new_id

    async def run(
        self, questions: Sequence[Question], configuration: Configuration, *, title: str, advance: Callable[[], None]
    ) -> tuple[Run, dict[DocumentId, str]]:
        """Ask all questions concurrently; return the run and the titles of its kept documents.

        Raises TimeoutError, naming the question, if an answer does not arrive.
        """
        replies: dict[str, Reply] = {}

        async def reply(question: Question) -> None:
            replies[question.question_id] = await self._reply(question, configuration)

        await self._run_concurrently(questions, reply, advance)
        return _run(questions, replies, title), _titles(replies.values())

    async def served(
        self, asks: Sequence[tuple[Question, Configuration]], *, advance: Callable[[], None]
    ) -> list[ServedAnswer]:
        """Ask each question once, concurrently; return the answers in the order of `asks`.

        Rankings, and so Recall and failed, cover only the hits of an answer. Raises TimeoutError like `run`.
        """
        results: dict[int, ContextResult] = {}

        async def reply(place: int) -> None:
            results[place] = await self.answer(*asks[place])

        await self._run_concurrently(range(len(asks)), reply, advance)
        rankings = {
            str(place): [each.document_id for each in rank_documents(result.hits)] for place, result in results.items()
        }
        judgements = {
            str(place): question.judgements
            for place, (question, _) in enumerate(asks)
            if question.judgements is not None
        }
        judged = judge_rankings(rankings, judgements)
        return [
            ServedAnswer(
                {**judged.get(str(place), {}), **self._other_figures(question, results[place])},
                _reported_notices(results[place]),
            )
            for place, (question, _) in enumerate(asks)
        ]

    async def answer(self, question: Question, configuration: Configuration) -> ContextResult:
        """Ask a question once. Raises TimeoutError, naming the question, if no answer arrives."""
        return await self._ask(question, configuration.applied)

    async def _run_concurrently(
        self, items: Iterable[T], work: Callable[[T], Awaitable[None]], advance: Callable[[], None]
    ) -> None:
        waiting = iter(items)

        async def take() -> None:
            for item in waiting:
                await work(item)
                advance()

        workers = [asyncio.create_task(take()) for _ in range(self._max_in_flight)]
        try:
            await asyncio.gather(*workers)
        finally:
            await cancel_and_wait(workers)

    async def _reply(self, question: Question, configuration: Configuration) -> Reply:
        served = await self.answer(question, configuration)
        deep = await self._ask(question, lambda query: self._deepened(configuration.applied(query)))
        ranking = rank_documents([*served.hits, *deep.hits])
        read = served.analysis
        return Reply(
            language="?" if read is None else read.language,
            query_type="?" if read is None else read.query_type.lower(),
            ranking=tuple(ranking),
            is_cut=len(deep.hits) == DEPTH and len(ranking) < CUTOFF,
            figures=self._other_figures(question, served),
            notices=(*_reported_notices(served), *_reported_notices(deep)),
        )

    async def _ask(self, question: Question, configure: Callable[[ContextQuery], ContextQuery]) -> ContextResult:
        query = configure(
            ContextQuery(
                query_id=self._new_id(),
                tenant=self._tenant,
                text=question.text,
                asked_at=self._now(),
                deadline_ms=DEADLINE_MS,
            )
        )
        patience_s = patience_of(query.deadline_ms or DEADLINE_MS)
        try:
            return await self._asker.ask(query, patience_s=patience_s)
        except TimeoutError as error:
            raise TimeoutError(f"no answer to question {question.question_id} within {patience_s:.0f} s") from error

    def _deepened(self, query: ContextQuery) -> ContextQuery:
        """Return the query for the maximum number of hits, without context around them, at unchanged search depth."""
        depth = self._defaults.with_overrides(query).depth
        return replace(query, top_k=DEPTH, candidates=depth, parents=False, neighbours=0)

    def _other_figures(self, question: Question, served: ContextResult) -> dict[str, float]:
        figures = {}
        if question.is_answerable:
            figures[EMPTY] = float(not served.hits)
        if question.judgements is not None and served.reranker in CALIBRATED:
            share = false_positives(served.hits, question.judgements, threshold=self._threshold)
            if share is None and not question.is_answerable:
                # An answer without such a hit is the right one: left out, a single wrong one would be the mean.
                share = 0.0
            if share is not None:
                figures[FALSE_POSITIVES] = share
        if question.spans:
            figures[SPANS] = share_found(question.spans, served.context)
        if question.facts:
            figures[FACTS] = share_found(question.facts, served.context)
        if question.sections:
            place = place_in_sections(served.hits, question.sections)
            figures |= {name: float(place is not None and place <= limit) for name, limit in _HITS.items()}
        return figures


def _run(questions: Sequence[Question], replies: Mapping[str, Reply], title: str) -> Run:
    rankings = {name: [each.document_id for each in reply.ranking] for name, reply in replies.items()}
    judgements = {each.question_id: each.judgements for each in questions if each.judgements is not None}
    judged = judge_rankings(rankings, judgements)
    answers = tuple(_answered(each, replies[each.question_id], judged.get(each.question_id, {})) for each in questions)
    cut = sum(replies[each.question_id].is_cut and None in each.relevant.values() for each in answers)
    return Run(
        title=title,
        answers=answers,
        lower_bounds=(RECALL_100,) if cut else (),
        remarks=(*_bound(cut, len(answers)), *notice_summaries([reply.notices for reply in replies.values()])),
    )


def _answered(question: Question, reply: Reply, judged: Mapping[str, float]) -> Answered:
    grades = question.judgements or {}
    places = {each.document_id: place for place, each in enumerate(reply.ranking, start=1)}
    return Answered(
        question_id=question.question_id,
        text=question.text,
        language=reply.language,
        query_type=reply.query_type,
        figures={**judged, **reply.figures},
        ranking=tuple(
            KeptRank(each.document_id, each.score, grades.get(each.document_id)) for each in reply.ranking[:KEPT]
        ),
        relevant={name: places.get(name) for name, grade in grades.items() if grade > 0},
    )


def _titles(replies: Iterable[Reply]) -> dict[DocumentId, str]:
    """Return titles of documents: their name and the beginning of a found chunk, as names may be equal."""
    return {
        each.document_id: f"{each.name}: {' '.join(each.text[:EXCERPT_CHARS].split())} …"
        for reply in replies
        for each in reply.ranking[:KEPT]
    }


def _bound(cut: int, asked: int) -> list[str]:
    if not cut:
        return []
    reason = f"the maximum of {DEPTH} hits holds fewer than {CUTOFF} documents, and not all relevant ones"
    return [f"{RECALL_100} is a lower bound: for {cut} of {asked} questions {reason}"]


def _reported_notices(result: ContextResult) -> tuple[Notice, ...]:
    return tuple(notice for notice in result.notices if notice.kind in _REPORTED)


def notice_summaries(answers: Sequence[Sequence[Notice]]) -> list[str]:
    """Return a line for each kind of notice, with its count and an example."""
    counts = Counter(key for notices in answers for key in {(notice.stage, notice.kind) for notice in notices})
    examples = {(notice.stage, notice.kind): notice.message for notices in answers for notice in notices}
    return [
        f"{kind.lower()} in {count} of {len(answers)} answers, {stage}: {examples[stage, kind]}"
        for (stage, kind), count in sorted(counts.items())
    ]
