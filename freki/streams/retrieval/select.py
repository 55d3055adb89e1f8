"""Chooses the hits among the candidates of a query."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from freki.operators.blend import blend
from freki.operators.diversify import maximal_marginal_relevance
from freki.operators.limit_each import limit_each
from freki.schemas import ExactKind, NoticeKind, RerankerChoice
from freki.streams.retrieval.rerank import COSINE, LLM, LOCAL, PROBABILITIES, REMOTE, VERTEX, fused_in_unit
from freki.streams.retrieval.trail import Found, Trail, timed

_MEANING = {
    LOCAL: "probabilities",
    REMOTE: "scores of the remote service as it means them",
    VERTEX: "scores of Vertex AI as it means them",
    LLM: "grades of the language model",
    COSINE: "cosines",
}


BEST_EFFORT = 3
"""How many hits there are at most where none passes the thresholds."""


def select(trail: Trail, *, unrelated: float) -> None:
    """Order by relevance and diversity; then leave out what is below the threshold, or too much of one document.

    In this order each of them only leaves out: a higher threshold changes nothing about the order of what passes. What
    users judged moves the order and the score that is shown, but nothing over or under a threshold. Where nothing
    passes, the few that are nearest to the question are given instead, and the result says so.
    unrelated: cosine of passages that have nothing to do with each other, see `Embedder`.
    """
    with timed([trail], "diversify", lambda _: len(trail.found)):
        relevance = _relevance(trail)
        trail.left("rerank")
        trail.best_effort = bool(trail.found) and not any(_passes(trail, found) for found in trail.found)
        if trail.best_effort:
            _fall_back(trail)
        else:
            _diversify(trail, relevance, unrelated=unrelated)
            _cut(trail)
            for found in trail.found:
                found.score += found.judged
        places = limit_each([found.root.root_id for found in trail.found], most=trail.knobs.per_document)
        trail.keep_only("diversify", "its document has its share of the hits", [trail.found[place] for place in places])
        trail.found = trail.found[: min(trail.knobs.top_k, BEST_EFFORT) if trail.best_effort else trail.knobs.top_k]
    trail.left("diversify")


def _diversify(trail: Trail, relevance: NDArray[np.float64], *, unrelated: float) -> None:
    """Set the order of all: first among those that were reranked, then among the others, which stand behind them.

    On one scale with them the others would all look alike, and be ordered by nothing but how much they differ.
    """
    reached = sum(each.reranked is not None for each in trail.found)
    head, rest = trail.found[:reached], trail.found[reached:]
    by_search = np.array([each.fused + each.judged for each in rest], np.float64)
    trail.found = [
        *_diversified(head, relevance[:reached], trail.knobs.mmr_lambda, unrelated),
        *_diversified(rest, by_search, trail.knobs.mmr_lambda, unrelated),
    ]


def _diversified(
    found: Sequence[Found], relevance: NDArray[np.float64], trade_off: float, unrelated: float
) -> list[Found]:
    if not found:
        return []
    vectors = np.array([each.vector for each in found], dtype=np.float32)
    order = maximal_marginal_relevance(
        relevance, vectors, limit=len(found), trade_off=trade_off, least_likeness=unrelated
    )
    return [found[place] for place in order]


def _cut(trail: Trail) -> None:
    """Apply the thresholds."""
    passed = [found for found in trail.found if _passes(trail, found)]
    if len(passed) < len(trail.found):
        message = f"{len(trail.found) - len(passed)} candidates are below {_thresholds(trail)}"
        trail.notice("threshold", NoticeKind.DROPPED, message)
        trail.keep_only("threshold", _reason(trail), passed)


def _passes(trail: Trail, found: Found) -> bool:
    """Compare with both thresholds; what the reranker is sure of need not be similar."""
    least = trail.knobs.min_similarity
    if found.score < trail.knobs.min_score:
        return False
    if least is None or (trail.reranker in PROBABILITIES and (found.reranked or 0.0) >= least):
        return True
    return not len(trail.vectors) or trail.similarity(found) >= least


def _fall_back(trail: Trail) -> None:
    """Order by nearness to the question where no candidate passes: an answer that says how weak it is."""
    for found in trail.found:
        found.judged = 0.0
    if len(trail.vectors):
        trail.found.sort(key=lambda found: (-trail.similarity(found), found.chunk_id))
    message = f"no candidate reaches {_thresholds(trail)}: these are only the nearest to the question"
    trail.notice("threshold", NoticeKind.DEGRADED, message)


def _reason(trail: Trail) -> str:
    if trail.knobs.min_similarity is None:
        return "its score is below min_score"
    return "it is below min_score or min_similarity"


def _thresholds(trail: Trail) -> str:
    meaning = _MEANING.get("" if _is_last_resort(trail) else trail.reranker, "fused scores")
    least = trail.knobs.min_similarity
    similarity = "" if least is None else f", or min_similarity {least:g}"
    return f"min_score {trail.knobs.min_score:g}, compared with {meaning}{similarity}"


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
    _heed(trail)
    relevance = np.array([found.score + found.judged for found in trail.found], np.float64)
    if trail.reranker in PROBABILITIES:
        weight = trail.knobs.blend_for(exact=_names_a_norm(trail))
        relevance = blend(relevance, np.array(fused_in_unit(trail, trail.found), np.float64), weight=weight)

    def rank(place: int) -> tuple[bool, float, float, str]:
        found: Found = trail.found[place]
        return found.reranked is None, -relevance[place], -found.fused, found.chunk_id

    order = sorted(range(len(relevance)), key=rank)
    trail.found = [trail.found[place] for place in order]
    sorted_relevance: NDArray[np.float64] = relevance[order]
    return sorted_relevance


def _heed(trail: Trail) -> None:
    """Note what users said of documents, at most the knob's share of the best score: the order heeds it."""
    scale = 1.0 if trail.reranker in PROBABILITIES else max((abs(found.score) for found in trail.found), default=0.0)
    for found in trail.found:
        found.judged = scale * trail.lift(found.chunk_id, found.root.root_id)


def _names_a_norm(trail: Trail) -> bool:
    return any(term.kind is ExactKind.SECTION for term in trail.analysis.exact)
