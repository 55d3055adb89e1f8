"""Score candidates by late interaction: the token vectors of the query with those stored of each candidate."""

from collections.abc import Mapping, Sequence

import numpy as np

from freki.operators.late_interaction import relevance, similarities
from freki.schemas import RerankerChoice
from freki.schemas.index import RowId
from freki.streams.ports import ChunkRows
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.search_result import Ranked
from freki.streams.retrieve.steps.fuse import fused_in_unit

STEP = "match"
_WITHOUT = frozenset({RerankerChoice.NONE, RerankerChoice.COSINE})


class MatchCodes:
    """Reads the token vectors of candidates, in one call for several queries."""

    def __init__(self, rows: ChunkRows, attempts: Attempts, *, late_interaction: bool) -> None:
        self._rows = rows
        self._attempts = attempts
        self._late_interaction = late_interaction

    async def __call__(
        self, queries: Sequence[EmbeddedQuery], rankings: Sequence[Sequence[Ranked]]
    ) -> Mapping[RowId, str]:
        """Return the codes by row; none if reading failed, or no query is matched."""
        matched = [
            (query, [each.row_id for each in ranked[: query.options.depth]])
            for query, ranked in zip(queries, rankings, strict=True)
            if self._late_interaction and _is_matched(query)
        ]
        wanted = list(dict.fromkeys(row_id for _, row_ids in matched for row_id in row_ids))
        if not wanted:
            return {}
        call = self._rows.match_codes(wanted)
        return await self._attempts([query for query, _ in matched], STEP, call) or {}


def match(query: EmbeddedQuery, ranked: Sequence[Ranked], codes: Mapping[RowId, str]) -> list[Ranked]:
    """Return the candidates by the probability that they are relevant; those that were not matched come last."""
    head, rest = ranked[: query.options.depth], ranked[query.options.depth :]
    if query.embedding is None or not codes or not _is_matched(query):
        return list(ranked)
    found = similarities(query.embedding, [codes.get(each.row_id, "") for each in head])
    if np.isnan(found.tokens).all():
        return list(ranked)
    # Dense search gave all others a lower cosine.
    least = min((each.dense for each in ranked if each.dense is not None), default=0.0)
    best = max((each.lexical or 0.0 for each in head), default=0.0)
    probabilities = relevance(
        found,
        fused=fused_in_unit(query.options.fusion, [each.fused for each in head]),
        cosines=[least if each.dense is None else each.dense for each in head],
        lexical=[(each.lexical or 0.0) / best if best > 0 else 0.0 for each in head],
    ).tolist()
    matched = [each._replace(matched=probability) for each, probability in zip(head, probabilities, strict=True)]

    def first(each: Ranked) -> tuple[float, str]:
        return -(each.matched or 0.0) - query.lift(each.chunk_id, each.root_id), each.chunk_id

    return [*sorted(matched, key=first), *rest]


def _is_matched(query: EmbeddedQuery) -> bool:
    return query.options.reranker not in _WITHOUT and query.embedding is not None and len(query.embedding.tokens) > 0
