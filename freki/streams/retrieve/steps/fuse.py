"""Fuse the rankings of all variants of a query into one."""

import math
from collections.abc import Sequence
from dataclasses import replace

from freki.operators.distance import in_metric, least_in
from freki.operators.fuse import (
    Hit,
    Scale,
    arctangent,
    from_distance,
    from_floor,
    min_max,
    reciprocal_rank_fusion,
    saturation,
    standardised_fusion,
    unit,
    weighted_fusion,
)
from freki.schemas import ChunkId, Fusion, Metric
from freki.schemas.index import Candidate
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.search_result import Ranked, SearchedVariant

_SCALES: dict[tuple[Fusion, Metric], tuple[Scale, Scale]] = {
    (fusion, metric): scales
    for metric in Metric
    for fusion, scales in {
        Fusion.WEIGHTED: (min_max, min_max),
        Fusion.TMM: (from_floor(least_in(metric)), from_floor(0.0)),
        Fusion.ARCTAN: (unit if metric is not Metric.EUCLIDEAN else from_distance, arctangent),
    }.items()
}
"""Scales of dense and of BM25 scores."""

Rankings = Sequence[Sequence[Candidate]]


def fuse(query: EmbeddedQuery, variants: Sequence[SearchedVariant]) -> tuple[list[Ranked], float | None]:
    """Return the fused ranking with the scores of each retriever, and the weight of dense search if it has one."""
    dense = [each.dense for each in variants if each.dense is not None]
    lexical = [each.lexical for each in variants if each.lexical is not None]
    best_dense, best_lexical = _best(dense), _best(lexical)
    found = {hit.chunk_id: hit for ranking in (*dense, *lexical) for hit in ranking}
    first = _first_variants(variants)
    alpha = None if query.options.fusion is Fusion.RRF else _alpha(query, variants, dense, lexical)
    ranked = [
        Ranked(
            chunk_id,
            hit.row_id,
            hit.root_id,
            score,
            best_dense.get(chunk_id),
            best_lexical.get(chunk_id),
            first[chunk_id],
            hit.version,
            hit.edition,
        )
        for chunk_id, score in _hits(query, variants, _in_metric(dense, query.options.metric), lexical, alpha)
        for hit in (found[chunk_id],)
    ]
    return (_lifted(query, ranked) if query.boosts else ranked), alpha


def fused_in_unit(fusion: Fusion, fused: Sequence[float]) -> list[float]:
    """Return the fused scores in 0..1: sums of reciprocal ranks are some hundredths."""
    best = max(fused, default=0.0) if fusion is Fusion.RRF else 1.0
    return [each / best if best > 0 else each for each in fused]


def _lifted(query: EmbeddedQuery, ranked: list[Ranked]) -> list[Ranked]:
    """Order by judgements too, so that a chunk they raise is among the reranked ones; scores stay."""
    best = ranked[0].fused if ranked else 0.0
    lifted = [(each.fused + best * query.lift(each.chunk_id, each.root_id), each) for each in ranked]
    return [each for _, each in sorted(lifted, key=lambda pair: (-pair[0], pair[1].chunk_id))]


def _hits(
    query: EmbeddedQuery, variants: Sequence[SearchedVariant], dense: Rankings, lexical: Rankings, alpha: float | None
) -> list[Hit]:
    rankings = [*dense, *lexical]
    if alpha is None:
        return reciprocal_rank_fusion(rankings, k=query.options.rrf_k, weights=_weights(variants, 1.0, 1.0))
    weights = _weights(variants, alpha, 1 - alpha)
    if query.options.fusion is Fusion.ZSCORE:
        return standardised_fusion(rankings, weights=weights)
    of_dense, of_lexical = _SCALES[query.options.fusion, query.options.metric]
    return weighted_fusion(rankings, weights=weights, scales=[*[of_dense] * len(dense), *[of_lexical] * len(lexical)])


def _in_metric(rankings: Rankings, metric: Metric) -> Rankings:
    """Return rankings with their cosines as scores of a metric: that moves what is fused by score, not by rank."""
    if metric is not Metric.EUCLIDEAN:
        return rankings
    return [[replace(hit, score=in_metric(hit.score, metric)) for hit in ranking] for ranking in rankings]


def _alpha(query: EmbeddedQuery, variants: Sequence[SearchedVariant], dense: Rankings, lexical: Rankings) -> float:
    """Return the weight of dense search: as given, else less the better the words of the query match."""
    # If one retriever was not asked or failed, only the other counts.
    if not (lexical and dense):
        return 1.0 if dense else 0.0
    given = query.options.alpha_for(keyword=query.analysis.keyword, exact=query.cites)
    if given is not None:
        return given
    best = max((hit.score for hit in variants[0].lexical or ()), default=0.0)
    return 1 - saturation(best, pivot=query.options.lexical_pivot)


def _weights(variants: Sequence[SearchedVariant], dense: float, lexical: float) -> list[float]:
    """Split the weight of each retriever among its variants, in proportion to their weights."""
    by_vector = [each.variant.weight for each in variants if each.dense is not None]
    by_terms = [each.variant.weight for each in variants if each.lexical is not None]
    return [
        share * weight / math.fsum(weights)
        for share, weights in ((dense, by_vector), (lexical, by_terms))
        for weight in weights
    ]


def _first_variants(variants: Sequence[SearchedVariant]) -> dict[ChunkId, int]:
    return {
        hit.chunk_id: place
        for place, each in reversed(list(enumerate(variants)))
        for hit in (*(each.dense or ()), *(each.lexical or ()))
    }


def _best(rankings: Rankings) -> dict[ChunkId, float]:
    """Return the best score of each chunk over all variants."""
    best: dict[ChunkId, float] = {}
    for ranking in rankings:
        for hit in ranking:
            if hit.chunk_id not in best or hit.score > best[hit.chunk_id]:
                best[hit.chunk_id] = hit.score
    return best
