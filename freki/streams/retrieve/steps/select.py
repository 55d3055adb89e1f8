"""Chooses the hits among the candidates of a query."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from freki.operators.blend import blend
from freki.operators.diversify import maximal_marginal_relevance
from freki.operators.limit_each import limit_each
from freki.schemas import ExactKind, NoticeKind, RerankerChoice
from freki.streams.retrieve.query_state import QueryState, ScoredChunk, timed
from freki.streams.retrieve.steps.rerank import COSINE, LLM, LOCAL, PROBABILITIES, REMOTE, VERTEX, fused_in_unit

_MEANING = {
    LOCAL: "probabilities",
    REMOTE: "scores of the remote service as it means them",
    VERTEX: "scores of Vertex AI as it means them",
    LLM: "grades of the language model",
    COSINE: "cosines",
}


BEST_EFFORT = 3
"""How many hits there are at most where none passes the thresholds."""


def select(state: QueryState, *, unrelated: float) -> None:
    """Order by relevance and diversity; then leave out what is below the threshold, or too much of one document.

    In this order each of them only leaves out: a higher threshold changes nothing about the order of what passes. What
    users judged moves the order and the score that is shown, but nothing over or under a threshold. Where nothing
    passes, the few that are nearest to the question are given instead, and the result says so.
    unrelated: cosine of passages that have nothing to do with each other, see `Embedder`.
    """
    with timed([state], "diversify", lambda _: len(state.found)):
        relevance = _relevance(state)
        state.left("rerank")
        state.best_effort = bool(state.found) and not any(_passes(state, found) for found in state.found)
        if state.best_effort:
            _fall_back(state)
        else:
            _diversify(state, relevance, unrelated=unrelated)
            _cut(state)
            for found in state.found:
                found.score += found.judged
        places = limit_each([found.root.root_id for found in state.found], most=state.options.per_document)
        state.keep_only("diversify", "its document has its share of the hits", [state.found[place] for place in places])
        state.found = state.found[: min(state.options.top_k, BEST_EFFORT) if state.best_effort else state.options.top_k]
    state.left("diversify")


def _diversify(state: QueryState, relevance: NDArray[np.float64], *, unrelated: float) -> None:
    """Set the order of all: first among those that were reranked, then among the others, which stand behind them.

    On one scale with them the others would all look alike, and be ordered by nothing but how much they differ.
    """
    reached = sum(each.reranked is not None for each in state.found)
    head, rest = state.found[:reached], state.found[reached:]
    by_search = np.array([each.fused + each.judged for each in rest], np.float64)
    state.found = [
        *_diversified(head, relevance[:reached], state.options.mmr_lambda, unrelated),
        *_diversified(rest, by_search, state.options.mmr_lambda, unrelated),
    ]


def _diversified(
    found: Sequence[ScoredChunk], relevance: NDArray[np.float64], trade_off: float, unrelated: float
) -> list[ScoredChunk]:
    if not found:
        return []
    vectors = np.array([each.vector for each in found], dtype=np.float32)
    order = maximal_marginal_relevance(
        relevance, vectors, limit=len(found), trade_off=trade_off, least_likeness=unrelated
    )
    return [found[place] for place in order]


def _cut(state: QueryState) -> None:
    """Apply the thresholds."""
    passed = [found for found in state.found if _passes(state, found)]
    if len(passed) < len(state.found):
        message = f"{len(state.found) - len(passed)} candidates are below {_thresholds(state)}"
        state.notice("threshold", NoticeKind.DROPPED, message)
        state.keep_only("threshold", _reason(state), passed)


def _passes(state: QueryState, found: ScoredChunk) -> bool:
    """Compare with both thresholds; what the reranker is sure of need not be similar."""
    least = state.options.min_similarity
    if found.score < state.options.min_score:
        return False
    if least is None or (state.reranker in PROBABILITIES and (found.reranked or 0.0) >= least):
        return True
    return not len(state.vectors) or state.similarity(found) >= least


def _fall_back(state: QueryState) -> None:
    """Order by nearness to the question where no candidate passes: an answer that says how weak it is."""
    for found in state.found:
        found.judged = 0.0
    if len(state.vectors):
        state.found.sort(key=lambda found: (-state.similarity(found), found.chunk_id))
    message = f"no candidate reaches {_thresholds(state)}: these are only the nearest to the question"
    state.notice("threshold", NoticeKind.DEGRADED, message)


def _reason(state: QueryState) -> str:
    if state.options.min_similarity is None:
        return "its score is below min_score"
    return "it is below min_score or min_similarity"


def _thresholds(state: QueryState) -> str:
    meaning = _MEANING.get("" if _is_last_resort(state) else state.reranker, "fused scores")
    least = state.options.min_similarity
    similarity = "" if least is None else f", or min_similarity {least:g}"
    return f"min_score {state.options.min_score:g}, compared with {meaning}{similarity}"


def _is_last_resort(state: QueryState) -> bool:
    """Tell whether cosines are only shown: they are part of the hybrid score already, and alone they rank worse."""
    return state.reranker == COSINE and state.options.reranker is not RerankerChoice.COSINE


def _relevance(state: QueryState) -> NDArray[np.float64]:
    """Set the final scores, sort by relevance, and give it: reranked candidates before those not reached."""
    is_last_resort = _is_last_resort(state)
    reranked = [] if is_last_resort else [found.reranked for found in state.found if found.reranked is not None]
    lowest = min(reranked, default=1.0)
    for found in state.found:
        if found.reranked is not None and not is_last_resort:
            found.score = found.reranked
        else:
            # In the fused order, and at most as good as the worst that the reranker saw.
            found.score = lowest * (found.fused if lowest >= 0 else 2 - found.fused)
    _heed(state)
    relevance = np.array([found.score + found.judged for found in state.found], np.float64)
    if state.reranker in PROBABILITIES:
        weight = state.options.blend_for(exact=_names_a_norm(state))
        relevance = blend(relevance, np.array(fused_in_unit(state, state.found), np.float64), weight=weight)

    def rank(place: int) -> tuple[bool, float, float, str]:
        found: ScoredChunk = state.found[place]
        return found.reranked is None, -relevance[place], -found.fused, found.chunk_id

    order = sorted(range(len(relevance)), key=rank)
    state.found = [state.found[place] for place in order]
    sorted_relevance: NDArray[np.float64] = relevance[order]
    return sorted_relevance


def _heed(state: QueryState) -> None:
    """Note what users said of documents, at most the option's share of the best score: the order heeds it."""
    scale = 1.0 if state.reranker in PROBABILITIES else max((abs(found.score) for found in state.found), default=0.0)
    for found in state.found:
        found.judged = scale * state.lift(found.chunk_id, found.root.root_id)


def _names_a_norm(state: QueryState) -> bool:
    return any(term.kind is ExactKind.SECTION for term in state.analysis.exact)
