"""Dense and lexical search in Milvus, within a scope."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from freki.infra.milvus.chunk_rows import check_vectors
from freki.infra.milvus.connection import MilvusConnection
from freki.infra.milvus.filters import scope_expression
from freki.infra.milvus.layout import Row
from freki.infra.milvus.shards import Shard
from freki.infra.milvus.store import together
from freki.schemas import ChunkId, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import Candidate, Scope, chunk_of_row


class MilvusSearch(MilvusConnection):
    """Satisfies ChunkSearch of `streams.ports`, except for watermarks."""

    async def dense(
        self,
        vectors: Floats,
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,
        bypass_cache: bool = False,  # noqa: ARG002 - nothing is kept
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, width). Queries of equal scope share one call per shard."""
        check_vectors(vectors, (len(scopes), self._generation.width))
        scopes = self._stored_scopes(scopes)
        return _merged(
            await together(
                self._rankings(
                    shard, "dense", dict(enumerate(vectors[:, shard.block])), scopes, limit=limit, strong=strong
                )
                for shard in self._shards
            ),
            limit,
        )

    async def lexical(
        self,
        texts: Sequence[str],
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,
        bypass_cache: bool = False,  # noqa: ARG002 - nothing is kept
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms; an empty text finds nothing. Equal scopes share one call per shard.

        Document frequencies are counted per shard.
        """
        asked = {position: text for position, text in enumerate(texts) if text.strip()}
        scopes = self._stored_scopes(scopes)
        if (sealer := self._sealer) is not None:
            asked = {position: sealer.terms(text, scopes[position].tenant) for position, text in asked.items()}
        return _merged(
            await together(
                self._rankings(shard, "sparse", asked, scopes, limit=limit, strong=strong) for shard in self._shards
            ),
            limit,
        )

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Return the chunks of each list that the scope of the same position may see."""
        found = await together(
            self._rows_with_chunks(chunk_ids, ["row_id", "chunk_id", "root_id"], condition=scope_expression(scope))
            for chunk_ids, scope in zip(wanted, self._stored_scopes(scopes), strict=True)
        )
        return [{ChunkId(row["chunk_id"]): RootId(row["root_id"]) for _, row in rows} for rows in found]

    def _stored_scopes(self, scopes: Sequence[Scope]) -> Sequence[Scope]:
        """Return scopes whose filters compare values as the rows have them."""
        sealer = self._sealer
        return scopes if sealer is None else [sealer.scope(scope) for scope in scopes]

    async def _rankings(
        self,
        shard: Shard,
        column: str,
        asked: Mapping[int, Any],
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,
    ) -> list[list[Candidate]]:
        """Search one shard for queries by position, with one call per distinct scope."""
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for position in asked:
            groups[scope_expression(scopes[position])].append(position)
        answers = await together(
            self._store.search(
                shard.layout,
                column,
                [asked[position] for position in positions],
                condition,
                limit=limit,
                strong=strong,
            )
            for condition, positions in groups.items()
        )
        rankings: list[list[Candidate]] = [[] for _ in scopes]
        for positions, found in zip(groups.values(), answers, strict=True):
            for position, hits in zip(positions, found, strict=True):
                rankings[position] = _ranking(hits)
        return rankings


def _merged(shards: Sequence[list[list[Candidate]]], limit: int) -> list[list[Candidate]]:
    """Return one ranking per query, merged from those of all shards."""
    if len(shards) == 1:
        return shards[0]
    return [sorted(chain(*rankings), key=_best_first)[:limit] for rankings in zip(*shards, strict=True)]


def _ranking(hits: Iterable[Row]) -> list[Candidate]:
    """Return candidates, best first, each chunk once: during an update several rows may hold it."""
    best: dict[ChunkId, Candidate] = {}
    for hit in sorted(map(_candidate, hits), key=_best_first):
        best.setdefault(hit.chunk_id, hit)
    return list(best.values())


def _best_first(hit: Candidate) -> tuple[float, ChunkId]:
    return -hit.score, hit.chunk_id


def _candidate(hit: Row) -> Candidate:
    return Candidate(
        chunk_id=chunk_of_row(hit["row_id"]),
        row_id=hit["row_id"],
        root_id=hit["root_id"],
        score=hit["distance"],
        version=hit["version"],
        edition=hit["edition"],
    )
