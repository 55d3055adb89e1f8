"""Chooses the hits among the candidates of a query."""

import numpy as np

from freki.operators.diversify import maximal_marginal_relevance
from freki.schemas import NoticeKind, RerankerChoice
from freki.streams.retrieval.rerank import COSINE, PROBABILITIES
from freki.streams.retrieval.trail import Found, Trail, timed

LEAST_PROBABILITY = 1e-6
"""A probability below this one is 0, as far as evidence goes."""


def select(trail: Trail, *, unrelated: float) -> None:
    """Order by final score, apply the threshold, then diversify down to the limit.

    unrelated: cosine of passages that have nothing to do with each other, see `Embedder`.
    """
    with timed([trail], "diversify", lambda _: len(trail.found)):
        _score(trail)
        trail.left("rerank")
        passed = [found for found in trail.found if found.score >= trail.knobs.min_score]
        if len(passed) < len(trail.found):
            trail.notice(
                "threshold",
                NoticeKind.DROPPED,
                f"{len(trail.found) - len(passed)} candidates are below min_score {trail.knobs.min_score}",
            )
            trail.keep_only("threshold", "its score is below min_score", passed)
        trail.found = _diversified(trail, trail.found, unrelated=unrelated)
    trail.left("diversify")


def _score(trail: Trail) -> None:
    """Set the final scores, best first: reranked candidates before those that the reranker did not reach.

    Cosine as the last resort sets no order: it is part of the hybrid score already, and alone it ranks worse.
    """
    last_resort = trail.reranker == COSINE and trail.knobs.reranker is not RerankerChoice.COSINE
    reranked = [] if last_resort else [found.reranked for found in trail.found if found.reranked is not None]
    lowest = min(reranked, default=1.0)
    for found in trail.found:
        if found.reranked is not None and not last_resort:
            found.score = found.reranked
        else:
            # In the fused order, and at most as good as the worst that the reranker saw.
            found.score = lowest * (found.fused if lowest >= 0 else 2 - found.fused)
    trail.found.sort(key=lambda found: (found.reranked is None, -found.score, -found.fused, found.chunk_id))


def _diversified(trail: Trail, found: list[Found], *, unrelated: float) -> list[Found]:
    if not found:
        return []
    relevance = np.array([each.score for each in found])
    if trail.reranker in PROBABILITIES:
        # Most are close to 0, where a small difference of probability is a large one of evidence.
        likely = np.clip(relevance, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        relevance = np.log(likely / (1 - likely))
    order = maximal_marginal_relevance(
        relevance,
        np.array([each.vector for each in found], dtype=np.float32),
        limit=trail.knobs.top_k,
        trade_off=trail.knobs.mmr_lambda,
        least_likeness=unrelated,
    )
    return [found[place] for place in order]
