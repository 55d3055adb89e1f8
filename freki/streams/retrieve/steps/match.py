"""Score candidates by late interaction: the token vectors of the query with those stored of each candidate."""

from collections.abc import Mapping, Sequence

import numpy as np

from freki.operators.late_interaction import ENGLISH, OTHERS, SearchScores, relevance, similarities
from freki.schemas import RerankerChoice
from freki.schemas.index import RowId
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.search_result import Ranked
from freki.streams.retrieve.steps.fuse import fused_in_unit

STEP = "match"
_WITHOUT = frozenset({RerankerChoice.NONE, RerankerChoice.COSINE})


def matched_rows(query: EmbeddedQuery, ranked: Sequence[Ranked]) -> list[RowId]:
    """Return the rows whose match codes `match` compares."""
    if query.embedding is None or query.options.reranker in _WITHOUT:
        return []
    return [each.row_id for each in ranked[: query.options.depth]]


def match(query: EmbeddedQuery, ranked: Sequence[Ranked], codes: Mapping[RowId, str]) -> list[Ranked]:
    """Return the candidates by the probability that they are relevant; those that were not matched come last."""
    rows = matched_rows(query, ranked)
    head, rest = ranked[: len(rows)], ranked[len(rows) :]
    if query.embedding is None or not rows:
        return list(ranked)
    found = similarities(query.embedding, [codes.get(row_id, "") for row_id in rows])
    if np.isnan(found.tokens).all():
        return list(ranked)
    # Dense search gave all others a lower cosine.
    least = min((each.dense for each in ranked if each.dense is not None), default=0.0)
    best = max((each.lexical or 0.0 for each in head), default=0.0)
    scores = SearchScores(
        fused=fused_in_unit(query.options.fusion, [each.fused for each in head]),
        cosines=[least if each.dense is None else each.dense for each in head],
        lexical=[(each.lexical or 0.0) / best if best > 0 else 0.0 for each in head],
    )
    weights = ENGLISH if query.analysis.language == "en" else OTHERS
    probabilities = relevance(found, scores, weights=weights).tolist()
    matched = [each._replace(matched=probability) for each, probability in zip(head, probabilities, strict=True)]

    def first(each: Ranked) -> tuple[float, str]:
        return -(each.matched or 0.0) - query.lift(each.chunk_id, each.root_id), each.chunk_id

    return [*sorted(matched, key=first), *rest]
