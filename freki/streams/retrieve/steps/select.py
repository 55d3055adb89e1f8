"""Choose the hits among the candidates of a query."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from freki.operators.blend import blend
from freki.operators.diversify import maximal_marginal_relevance
from freki.operators.limit_each import limit_each
from freki.schemas import NoticeKind, RerankerChoice
from freki.schemas.names import extended
from freki.streams.retrieve.candidates import LoadedChunk, RankedCandidates, ScoredChunk, Selection
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.exact import cited_first
from freki.streams.retrieve.steps.fuse import fused_in_unit
from freki.streams.retrieve.steps.rerank import COSINE, LLM, LOCAL, PROBABILITIES, REMOTE, VERTEX, probability

Relevance = NDArray[np.float64]

STEP = "diversify"
THRESHOLD = "threshold"
MAX_BEST_EFFORT_HITS = 3
_SCORES = {
    LOCAL: "probabilities",
    REMOTE: "scores of the remote service as it means them",
    VERTEX: "scores of Vertex AI as it means them",
    LLM: "grades of the language model",
    COSINE: "cosines",
}
"""Kind of the scores of each reranker."""


def select(query: EmbeddedQuery, candidates: RankedCandidates, *, unrelated: float) -> Selection:
    """Order by relevance and diversity; then drop what is below a threshold, or too much of one document.

    In this order, each threshold only drops: a higher one does not change the order of what passes. Judgements of users
    move the order and the final score, but nothing over or under a threshold. If nothing passes, the few candidates
    that are nearest to the query become the hits, and a notice says so.
    unrelated: cosine of unrelated passages, see `Embedder`.
    """
    with timed([query.log], STEP, lambda _: len(candidates.found)):
        scored, relevance = _score(query, candidates)
        selection: Selection = extended(Selection, candidates, found=scored, best_effort=False).after("rerank")
        if scored and not any(_passes(query, selection, each) for each in scored):
            selection = _fall_back(query, selection)
            limit = min(query.options.top_k, MAX_BEST_EFFORT_HITS)
        else:
            selection = _cut(query, cited_first(query, _diversified(query, selection, relevance, unrelated)))
            limit = query.options.top_k
        found = selection.found
        places = limit_each([each.root.root_id for each in found], most=query.options.per_document)
        kept = [found[place] for place in places]
        selection = selection.keep_only(STEP, "its document has its share of the hits", kept)
        if selection.best_effort:
            selection = selection.keep_only(THRESHOLD, _reason(query), selection.found[:limit])
        hits = tuple(replace(each, score=each.score + each.judged) for each in selection.found[:limit])
        return replace(selection, found=hits).after(STEP)


def _score(query: EmbeddedQuery, candidates: RankedCandidates) -> tuple[list[ScoredChunk], Relevance]:
    """Set the final scores, and sort by relevance: reranked candidates before those that were not reached."""
    only_shown = _is_last_resort(query, candidates)
    reranked = [] if only_shown else [each.reranked for each in candidates.found if each.reranked is not None]
    lowest = min(reranked, default=1.0)
    before = _before(candidates.found)
    scores = [
        # In the order before, and at most as good as the worst reranked candidate.
        lowest * (given if lowest >= 0 else 2 - given) if each.reranked is None or only_shown else each.reranked
        for each, given in zip(candidates.found, before, strict=True)
    ]
    scored = _judged(query, candidates, scores)
    relevance = np.array([each.score + each.judged for each in scored], np.float64)
    if candidates.reranker in PROBABILITIES:
        fused = np.array(fused_in_unit(query.options.fusion, [each.fused for each in candidates.found]), np.float64)
        relevance = blend(relevance, fused, weight=query.options.blend_for(exact=query.cites))
    # To log-odds; of other scores the highest is 1, which a rare mention outweighs.
    relevance = relevance + np.array([each.mentions for each in candidates.found], np.float64)

    def rank(place: int) -> tuple[bool, float, float, str]:
        each = scored[place]
        return each.reranked is None, -relevance[place], -before[place], each.chunk_id

    order = sorted(range(len(scored)), key=rank)
    return [scored[place] for place in order], relevance[order]


def _before(found: Sequence[LoadedChunk]) -> list[float]:
    """Return the score of each before a model reranks, 0..1: by late interaction, or fused.

    Where some were compared by late interaction, the others stand behind these: fused scores are on another scale.
    """
    lowest = min((each.matched for each in found if each.matched is not None), default=1.0)
    return [lowest * each.fused if each.matched is None else each.matched for each in found]


def _judged(query: EmbeddedQuery, candidates: RankedCandidates, scores: Sequence[float]) -> list[ScoredChunk]:
    """Add the judgements of users, as a share of the best score."""
    is_probability = candidates.reranker in PROBABILITIES
    scale = 1.0 if is_probability else max((abs(score) for score in scores), default=0.0)
    return [
        extended(ScoredChunk, each, score=score, judged=scale * query.lift(each.chunk_id, each.root.root_id))
        for each, score in zip(candidates.found, scores, strict=True)
    ]


def _diversified(query: EmbeddedQuery, selection: Selection, relevance: Relevance, unrelated: float) -> Selection:
    """Order the reranked candidates, then all others behind them.

    On one scale with the reranked ones the others would all look alike, and only their differences would order them.
    """
    reached = sum(each.reranked is not None for each in selection.found)
    head, rest = selection.found[:reached], selection.found[reached:]
    before = _before(selection.found)[reached:]
    by_search = np.array(
        [given + each.judged + each.mentions for each, given in zip(rest, before, strict=True)], np.float64
    )
    trade_off = query.options.mmr_lambda
    found = [
        *_by_margin(head, relevance[:reached], trade_off, unrelated),
        *_by_margin(rest, by_search, trade_off, unrelated),
    ]
    return replace(selection, found=found)


def _by_margin(
    found: Sequence[ScoredChunk], relevance: Relevance, trade_off: float, unrelated: float
) -> list[ScoredChunk]:
    if not found:
        return []
    vectors = np.array([each.vector for each in found], dtype=np.float32)
    order = maximal_marginal_relevance(
        relevance, vectors, limit=len(found), trade_off=trade_off, least_likeness=unrelated
    )
    return [found[place] for place in order]


def _cut(query: EmbeddedQuery, selection: Selection) -> Selection:
    """Apply the thresholds."""
    passed = [each for each in selection.found if _passes(query, selection, each)]
    dropped = len(selection.found) - len(passed)
    if not dropped:
        return selection
    message = f"{dropped} candidates are below {_thresholds(query, selection)}"
    query.log.notice(THRESHOLD, NoticeKind.DROPPED, message)
    return selection.keep_only(THRESHOLD, _reason(query), passed)


def _passes(query: EmbeddedQuery, selection: Selection, chunk: ScoredChunk) -> bool:
    """Compare with both thresholds; a candidate that the reranker is sure of need not be similar."""
    if chunk.score < query.options.min_score:
        return False
    return query.reaches(query.options.min_similarity, chunk.vector, probability(selection, chunk))


def _fall_back(query: EmbeddedQuery, selection: Selection) -> Selection:
    """Order by similarity to the query: no candidate passes, and a notice says how weak the hits are."""
    message = f"no candidate reaches {_thresholds(query, selection)}: these are only the nearest to the query"
    query.log.notice(THRESHOLD, NoticeKind.DEGRADED, message)
    found = [replace(each, judged=0.0) for each in selection.found]
    if query.vector is not None:
        found.sort(key=lambda each: (-(query.similarity(each.vector) or 0.0), each.chunk_id))
    return replace(selection, found=found, best_effort=True)


def _reason(query: EmbeddedQuery) -> str:
    if query.options.min_similarity is None:
        return "its score is below min_score"
    return "it is below min_score or min_similarity" if query.options.min_score > 0 else "it is below min_similarity"


def _thresholds(query: EmbeddedQuery, selection: Selection) -> str:
    """Return the thresholds that were asked for; min_score 0 is the default."""
    scores = _SCORES.get("" if _is_last_resort(query, selection) else selection.reranker, "fused scores")
    score, similarity = query.options.min_score, query.options.min_similarity
    score_said = [f"min_score {score:g}, compared with {scores}"] if score > 0 or similarity is None else []
    similarity_said = [] if similarity is None else [f"min_similarity {similarity:g}"]
    return ", or ".join([*score_said, *similarity_said])


def _is_last_resort(query: EmbeddedQuery, candidates: RankedCandidates) -> bool:
    """Return whether cosines are only shown: they are part of the hybrid score, and alone they rank worse."""
    return candidates.reranker == COSINE and query.options.reranker is not RerankerChoice.COSINE
