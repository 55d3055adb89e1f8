"""Rescores the best candidates of a query: each reranker of a chain steps in for the one before it."""

from collections.abc import Sequence
from contextlib import nullcontext

from freki.operators.breadcrumb import with_context
from freki.schemas import Fusion, NoticeKind, RerankerChoice
from freki.schemas.index import RerankPair
from freki.streams.ports import Reranker
from freki.streams.retrieve.budget.attempts import FINISHING, LEAST_STEP_S, Attempts, StepFailed
from freki.streams.retrieve.budget.deadline_lock import DeadlineLock
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.query_state import QueryState, ScoredChunk, timed
from freki.streams.retrieve.steps.query_vectors import asker_of

REMOTE = "remote"
VERTEX = "vertex"
LOCAL = "local"
LLM = "llm"
COSINE = "cosine"
PROBABILITIES = frozenset({REMOTE, VERTEX, LOCAL, LLM})
"""Rerankers whose scores are in 0..1; the local one's alone are known to be probabilities."""
SHARE = 0.5
"""Of the time that is left, what a service outside may take where another reranker could step in for it."""
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
    LOCAL: "no reranker: cosine gives scores, hybrid search the order; set FREKI_MODELS__RERANKER",
    LLM: "no language model to rerank with: set FREKI_LLM__URL and FREKI_LLM__MODEL",
}


class Reranking:
    """One query at a time: what it may cost depends on the time that the query has left."""

    def __init__(self, rerankers: Sequence[Reranker], *, attempts: Attempts, in_flight: InFlight) -> None:
        self._rerankers = {reranker.name: reranker for reranker in rerankers}
        self._attempts = attempts
        self._in_flight = in_flight
        self._turns = DeadlineLock()

    async def __call__(self, state: QueryState) -> None:
        """Set `reranked` of the best candidates, as many as there is time for."""
        head = state.found[: state.options.rerank_candidates]
        state.head = head
        if not head or state.options.reranker is RerankerChoice.NONE:
            return
        for name in _CHAIN[state.options.reranker]:
            scores = await self._scores(state, name, head)
            if scores is not None:
                state.reranker = name
                break
        else:
            return
        for found, score in zip(head, scores, strict=True):
            found.reranked = score
        left_out = sum(score is None for score in scores)
        if left_out:
            state.unranked += left_out
            state.notice(
                "rerank",
                NoticeKind.SKIPPED,
                f"{left_out} of {len(head)} candidates were not reranked: the deadline of "
                f"{state.options.deadline_ms} ms left the {name} reranker no time for them",
            )

    async def _scores(self, state: QueryState, name: str, head: Sequence[ScoredChunk]) -> list[float | None] | None:
        if name == COSINE:
            with timed([state], "rerank", lambda _: len(head)):
                return _cosines(state, head)
        reranker = self._rerankers.get(name)
        if reranker is None:
            if name in _asked_for(state.options.reranker):
                state.notice("rerank", NoticeKind.DEGRADED, _MISSING[name])
            return None
        after = (*state.extras, *FINISHING)
        ends_at_s = self._attempts.now_s + self._attempts.spare_s(state, before=after)
        # Two at once on the same cores would both be late; others compute elsewhere.
        async with self._turns.turn(ends_at_s) if name == LOCAL else nullcontext():
            budget_s = self._budget_s(state, name, ends_at_s)
            if budget_s < LEAST_STEP_S:
                state.notice("rerank", NoticeKind.SKIPPED, f"no time was left for the {name} reranker")
                return None
            started = state.clock_ns()
            call = _score(reranker, _pairs(state, head), budget_s)
            scores = await self._attempts([state], "rerank", call, service=f"rerank.{name}")
            state.note("rerank", started, state.clock_ns(), sum(score is not None for score in scores or ()))
            return scores

    def _budget_s(self, state: QueryState, name: str, ends_at_s: float) -> float:
        """Give the seconds that a reranker may take: one here shares with all queries, one outside with the next."""
        if name == LOCAL:
            return self._in_flight.share_s(state, ends_at_s)
        chain = _CHAIN[state.options.reranker]
        is_last = self._rerankers.keys().isdisjoint(chain[chain.index(name) + 1 :])
        return (ends_at_s - self._attempts.now_s) * (1.0 if is_last else SHARE)


async def _score(reranker: Reranker, pairs: Sequence[RerankPair], budget_s: float) -> list[float | None]:
    scores = await reranker.score(pairs, budget_s=budget_s)
    # One that is local begins nothing that it would not finish; one outside that gave nothing may be down.
    if reranker.name != LOCAL and all(score is None for score in scores):
        raise StepFailed(f"no score came within {1000 * budget_s:.0f} ms")
    return scores


def _asked_for(choice: RerankerChoice) -> tuple[str, ...]:
    """Name the rerankers whose absence is worth telling."""
    return (LOCAL,) if choice is RerankerChoice.AUTO else _CHAIN[choice][:1]


def _cosines(state: QueryState, head: Sequence[ScoredChunk]) -> list[float | None] | None:
    """Score by the vectors that are there anyway; not possible where the question has none."""
    if not len(state.vectors):
        return None
    question = state.vectors[0]
    return [None if found.vector is None else float(found.vector @ question) for found in head]


def _pairs(state: QueryState, head: Sequence[ScoredChunk]) -> list[RerankPair]:
    cosines = _cosines(state, head) or [None] * len(head)
    most = max((found.lexical or 0.0 for found in head), default=0.0)
    return [
        RerankPair(
            query=state.variants[0],
            query_language=state.analysis.language,
            heading=next((heading for heading in reversed(found.content.heading_path) if heading), ""),
            text=with_context(found.content.context, found.content.text),
            language=found.content.language,
            fused=fused,
            lexical=(found.lexical or 0.0) / most if most > 0 else 0.0,
            cosine=cosine or 0.0,
            asker=(state.query.tenant, *asker_of(state.query)),
            readers=(found.root.tenant, *sorted(set(found.root.principals))),
        )
        for found, fused, cosine in zip(head, fused_in_unit(state, head), cosines, strict=True)
    ]


def fused_in_unit(state: QueryState, candidates: Sequence[ScoredChunk]) -> list[float]:
    """Give fused scores in 0..1: reciprocal ranks sum up to some hundredths."""
    best = max((found.fused for found in candidates), default=0.0) if state.options.fusion is Fusion.RRF else 1.0
    return [found.fused / best if best > 0 else found.fused for found in candidates]
