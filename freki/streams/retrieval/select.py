"""Chooses the hits among the candidates of a query."""

import numpy as np
from numpy.typing import NDArray

from freki.operators.blend import blend
from freki.operators.diversify import maximal_marginal_relevance
from freki.operators.limit_each import limit_each
from freki.schemas import ExactKind, Fusion, NoticeKind, RerankerChoice
from freki.streams.retrieval.rerank import COSINE, LLM, LOCAL, REMOTE, VERTEX
from freki.streams.retrieval.trail import Found, Trail, timed

PROBABILITIES = frozenset({REMOTE, VERTEX, LOCAL, LLM})
"""Rerankers whose scores are in 0..1; the local one's alone are known to be probabilities."""
_MEANING = {
    LOCAL: "probabilities",
    REMOTE: "scores of the remote service as it means them",
    VERTEX: "scores of Vertex AI as it means them",
    LLM: "grades of the language model",
    COSINE: "cosines",
}


def select(trail: Trail, *, unrelated: float) -> None:
    """Order by relevance and diversity; then leave out what is below the threshold, or too much of one document.

    In this order each of them only leaves out: a higher threshold changes nothing about the order of what passes.
    unrelated: cosine of passages that have nothing to do with each other, see `Embedder`.
    """
    with timed([trail], "diversify", lambda _: len(trail.found)):
        relevance = _relevance(trail)
        trail.left("rerank")
        _diversify(trail, relevance, unrelated=unrelated)
        _cut(trail)
        places = limit_each([found.root.root_id for found in trail.found], most=trail.knobs.per_document)
        trail.keep_only("diversify", "its document has its share of the hits", [trail.found[place] for place in places])
        trail.found = trail.found[: trail.knobs.top_k]
    trail.left("diversify")


def _diversify(trail: Trail, relevance: NDArray[np.float64], *, unrelated: float) -> None:
    """Set the order of all."""
    if trail.found:
        vectors = np.array([each.vector for each in trail.found], dtype=np.float32)
        order = maximal_marginal_relevance(
            relevance,
            vectors,
            limit=len(relevance),
            trade_off=trail.knobs.mmr_lambda,
            least_likeness=unrelated,
        )
        trail.found = [trail.found[place] for place in order]


def _cut(trail: Trail) -> None:
    """Apply the threshold."""
    passed = [found for found in trail.found if found.score >= trail.knobs.min_score]
    if len(passed) < len(trail.found):
        meaning = _MEANING.get("" if _is_last_resort(trail) else trail.reranker, "fused scores")
        trail.notice(
            "threshold",
            NoticeKind.DROPPED,
            f"{len(trail.found) - len(passed)} candidates are below min_score {trail.knobs.min_score}, compared with "
            f"{meaning}",
        )
        trail.keep_only("threshold", "its score is below min_score", passed)


def _is_last_resort(trail: Trail) -> bool:
    """Tell whether cosines are only shown: they are part of the hybrid score already, and alone they rank worse."""
    return trail.reranker == COSINE and trail.knobs.reranker is not RerankerChoice.COSINE


def _relevance(trail: Trail) -> NDArray[np.float64]:
    """Set the final scores, sort by relevance, and give it: reranked candidates before those not reached."""
    is_last_resort = _is_last_resort(trail)
    reranked = [] if is_last_resort else [found.reranked for found in trail.found if found.reranked is not None]
    lowest = min(reranked, default=1.0)
    for found in trail.found:
        if found.reranked is not None and not is_last_resort:
            found.score = found.reranked
        else:
            # In the fused order, and at most as good as the worst that the reranker saw.
            found.score = lowest * (found.fused if lowest >= 0 else 2 - found.fused)
    relevance = np.array([found.score for found in trail.found], np.float64)
    if trail.reranker in PROBABILITIES:
        weight = trail.knobs.blend_for(exact=_names_a_norm(trail))
        relevance = blend(relevance, _fused(trail), weight=weight)

    def rank(place: int) -> tuple[bool, float, float, str]:
        found: Found = trail.found[place]
        return found.reranked is None, -relevance[place], -found.fused, found.chunk_id

    order = sorted(range(len(relevance)), key=rank)
    trail.found = [trail.found[place] for place in order]
    sorted_relevance: NDArray[np.float64] = relevance[order]
    return sorted_relevance


def _names_a_norm(trail: Trail) -> bool:
    return any(term.kind is ExactKind.SECTION for term in trail.analysis.exact)


def _fused(trail: Trail) -> NDArray[np.float64]:
    """Give fused scores in 0..1: reciprocal ranks sum up to some hundredths."""
    fused = np.array([found.fused for found in trail.found], np.float64)
    best = fused.max(initial=0.0) if trail.knobs.fusion is Fusion.RRF else 1.0
    scaled: NDArray[np.float64] = fused / best if best > 0 else fused
    return scaled
