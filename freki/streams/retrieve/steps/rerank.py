"""Rescore the best candidates of a query by a model, or keep the scores of late interaction (`match`).

If a reranker fails, the next of its chain takes over.
"""

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace

from freki.operators.breadcrumb import with_context
from freki.schemas import NoticeKind, RerankerChoice
from freki.schemas.index import RerankPair
from freki.schemas.names import extended
from freki.streams.ports import Reranker
from freki.streams.retrieve.budget.attempts import FINISHING, MIN_STEP_S, PATIENCE_S, Attempts, NotInTime, StepFailed
from freki.streams.retrieve.budget.deadline_lock import DeadlineLock
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.candidates import NO_RERANKER, LoadedCandidates, LoadedChunk, RankedCandidates
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.match import STEP as MATCH
from freki.streams.retrieve.steps.query_embeddings import STEP as EMBED

STEP = "rerank"
REMOTE = "remote"
VERTEX = "vertex"
LOCAL = "local"
LLM = "llm"
COSINE = "cosine"
PROBABILITIES = frozenset({REMOTE, VERTEX, LOCAL, LLM})
"""Rerankers whose scores are in 0..1; only those of the local one are known to be probabilities."""
SHARE = 0.5
"""Share of the time left that a remote service may take if another reranker could take over."""
_CHAIN = {
    RerankerChoice.AUTO: (REMOTE, VERTEX, LOCAL, COSINE),
    RerankerChoice.REMOTE: (REMOTE, LOCAL, COSINE),
    RerankerChoice.VERTEX: (VERTEX, LOCAL, COSINE),
    RerankerChoice.LOCAL: (LOCAL, COSINE),
    RerankerChoice.LLM: (LLM, LOCAL, COSINE),
    RerankerChoice.COSINE: (COSINE,),
}
_MISSING = {
    REMOTE: "no remote reranker: set FREKI_REMOTE_RERANKER__URL",
    VERTEX: "no ranking by Vertex AI: set FREKI_VERTEX_RERANKER__PROJECT",
    LOCAL: "no reranker: cosine gives scores, hybrid search the order; set FREKI_MODELS__RERANKER, and choose an "
    "embedder with token vectors",
    LLM: "no language model to rerank with: set FREKI_LLM__URL and FREKI_LLM__MODEL",
}
_WITHOUT_VECTOR = (
    "late interaction compares vectors of the query, and a keyword search has none: choose another reranker, or NONE"
)


class Reranking:
    """Reranks one query at a time: the cost of models depends on the time that the query has left."""

    def __init__(self, rerankers: Sequence[Reranker], *, attempts: Attempts, in_flight: InFlight) -> None:
        self._rerankers = {reranker.name: reranker for reranker in rerankers}
        self._attempts = attempts
        self._in_flight = in_flight
        self._lock = DeadlineLock()

    async def __call__(
        self, query: EmbeddedQuery, candidates: LoadedCandidates, later: Collection[str]
    ) -> RankedCandidates:
        """Score the best candidates by a model, as many as there is time for, or take the scores of late interaction.

        later: further steps that need time after it.
        """
        # Of hits that are chosen again only the last choice counts.
        query.log.unranked = 0
        choice = query.options.reranker
        if not candidates.found or choice is RerankerChoice.NONE:
            return extended(RankedCandidates, candidates, head=(), reranker=NO_RERANKER)
        head = candidates.found[: query.options.rerank_candidates]
        for name in _CHAIN[choice]:
            if name == LOCAL and name not in self._rerankers and _has_matched(candidates):
                return _scored(candidates, candidates.found, [each.matched for each in candidates.found], name)
            # Without any candidates, nothing can be learnt of a service.
            scores = await self._scores(query, name, head, later) if head else None
            if scores is not None:
                self._note_unranked(query, name, scores)
                return _scored(candidates, head, scores, name)
        return extended(RankedCandidates, candidates, head=(), reranker=NO_RERANKER)

    def _note_unranked(self, query: EmbeddedQuery, name: str, scores: Sequence[float | None]) -> None:
        left_out = sum(score is None for score in scores)
        if not left_out:
            return
        message = f"the language model gave no grade for {left_out} of {len(scores)} candidates"
        # A language model is asked once, in time or not at all; others leave out what they have no time for.
        if name != LLM:
            query.log.unranked += left_out
            message = (
                f"{left_out} of {len(scores)} candidates were not reranked: the deadline of "
                f"{query.options.deadline_ms} ms left the {name} reranker no time for them"
            )
        query.log.notice(STEP, NoticeKind.SKIPPED, message)

    async def _scores(
        self, query: EmbeddedQuery, name: str, head: Sequence[LoadedChunk], later: Collection[str]
    ) -> list[float | None] | None:
        if name == COSINE:
            with timed([query.log], STEP, lambda _: len(head)):
                cosines = _cosines(query, head)
                return None if cosines is None else [*cosines]
        reranker = self._rerankers.get(name)
        if reranker is None:
            if name in _asked_for(query.options.reranker) and not (name == LOCAL and _is_unmatched(query)):
                message = _WITHOUT_VECTOR if name == LOCAL and not query.is_embedded else _MISSING[name]
                query.log.notice(STEP, NoticeKind.DEGRADED, message)
            return None
        ends_at_s = self._attempts.now_s + self._attempts.spare_s(query, before=(*later, *FINISHING))
        # Two local rerankings at once on the same cores would both be late; remote ones compute elsewhere.
        async with self._lock.turn(ends_at_s) if name == LOCAL else nullcontext():
            budget_s = self._budget_s(query, name, ends_at_s)
            if budget_s < MIN_STEP_S:
                query.log.notice(STEP, NoticeKind.SKIPPED, f"no time was left for the {name} reranker")
                return None
            started_ns = query.log.clock_ns()
            call = _score(reranker, _pairs(query, head), budget_s)
            scores = await self._attempts([query], STEP, call, service=f"rerank.{name}")
            query.log.ran(STEP, started_ns, sum(score is not None for score in scores or ()))
            return scores

    def _budget_s(self, query: EmbeddedQuery, name: str, ends_at_s: float) -> float:
        """Return the seconds for a reranker: a local one shares with all queries, a remote one with the next one."""
        if name == LOCAL:
            return self._in_flight.share_s(query, ends_at_s)
        chain = _CHAIN[query.options.reranker]
        is_last = self._rerankers.keys().isdisjoint(chain[chain.index(name) + 1 :])
        return (ends_at_s - self._attempts.now_s) * (1.0 if is_last else SHARE)


def _has_matched(candidates: LoadedCandidates) -> bool:
    """Return whether late interaction gave scores; the first candidate may lack one, if a designation put it there."""
    return any(each.matched is not None for each in candidates.found)


def probability(candidates: RankedCandidates, chunk: LoadedChunk) -> float | None:
    """Return how sure the reranker is of a chunk; None if its scores say nothing of that."""
    return chunk.reranked if candidates.reranker in PROBABILITIES else None


def _scored(
    candidates: LoadedCandidates, head: Sequence[LoadedChunk], scores: Sequence[float | None], reranker: str
) -> RankedCandidates:
    scored = [replace(each, reranked=score) for each, score in zip(head, scores, strict=True)]
    found = [*scored, *candidates.found[len(head) :]]
    return extended(RankedCandidates, candidates, found=found, head=scored, reranker=reranker)


async def _score(reranker: Reranker, pairs: Sequence[RerankPair], budget_s: float) -> list[float | None]:
    scores = await reranker.score(pairs, budget_s=budget_s)
    # A local reranker begins nothing that it would not finish; a remote one without any score may be down.
    if reranker.name != LOCAL and all(score is None for score in scores):
        failure = StepFailed if budget_s >= PATIENCE_S else NotInTime
        raise failure(f"no score came within {1000 * budget_s:.0f} ms")
    return scores


def _is_unmatched(query: EmbeddedQuery) -> bool:
    """Return whether late interaction lacked what it compares, which no setting mends."""
    return (query.embedding is None and query.log.has_failed(EMBED)) or query.log.has_failed(MATCH)


def _asked_for(choice: RerankerChoice) -> tuple[str, ...]:
    """Return the rerankers whose absence is worth a notice."""
    return (LOCAL,) if choice is RerankerChoice.AUTO else _CHAIN[choice][:1]


def _cosines(query: EmbeddedQuery, head: Sequence[LoadedChunk]) -> list[float] | None:
    """Score by the vectors, or return None if the query has none."""
    vector = query.vector
    return None if vector is None else [float(each.vector @ vector) for each in head]


def _pairs(query: EmbeddedQuery, head: Sequence[LoadedChunk]) -> list[RerankPair]:
    return [
        RerankPair(
            query=query.text,
            heading=next((heading for heading in reversed(each.row.heading_path) if heading), ""),
            text=with_context(each.row.context, each.row.text),
        )
        for each in head
    ]
