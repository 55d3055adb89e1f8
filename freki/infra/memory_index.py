"""An index in memory with the promises of MilvusIndex: for tests, and to try Freki without a store."""

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from freki.infra.errors import Rejected
from freki.infra.milvus.filters import ATTRIBUTE, check_filter
from freki.infra.milvus.layout import DOCUMENTS, MANIFESTS, size_of
from freki.infra.milvus.rows import checked_key, chunk_row, page_row, root_row
from freki.infra.milvus.shards import Shard, shard_of, shards_of
from freki.schemas import ChunkId, Filter, FilterOperator, RootId, Timestamp, may_read
from freki.schemas.index import (
    Candidate,
    Generation,
    IndexedChunk,
    KnownChunk,
    ManifestPage,
    Passage,
    Root,
    Scope,
    Statistics,
    Watermark,
)

Floats = NDArray[np.float32]

Rows = dict[ChunkId, tuple[IndexedChunk, Floats]]

Score = Callable[[IndexedChunk, Floats], float | None]

_K1, _B = 1.2, 0.75


class MemoryIndex:
    """Satisfies ChunkRows, Roots and ChunkSearch of `streams.ports`; what it holds ends with it.

    Cosine similarity and BM25 are computed over every row, exactly and by the same formulas as Milvus' own. Takes
    and refuses the same rows as the real one.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._shards: dict[Shard, Rows] = {shard: {} for shard in shards_of(generation)}
        self._roots: dict[RootId, Root] = {}
        self._pages: dict[tuple[RootId, int, int], ManifestPage] = {}
        self._watermarks: dict[int, Watermark] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def known(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, KnownChunk]:
        """Tell which rows are there; absent ids are absent."""
        return {
            chunk.chunk_id: KnownChunk(
                chunk_id=chunk.chunk_id,
                kind=chunk.kind,
                embedder=chunk.embedder,
                facets=chunk.facets,
                context_key=chunk.context_key,
            )
            for chunk, _ in (await self.fetch(chunk_ids)).values()
        }

    async def fetch(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, tuple[IndexedChunk, Floats]]:
        """Read rows with their vectors, shape (width,), which are 0 but for the numbers of their embedder."""
        keys = dict.fromkeys(map(checked_key, chunk_ids))
        return {
            key: (rows[key][0], shard.widened(rows[key][1]))
            for shard, rows in self._shards.items()
            for key in keys
            if key in rows
        }

    async def passages(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Passage]:
        """Read texts with their headings and contexts."""
        return {
            chunk_id: Passage(
                text=row.text,
                heading_path=row.heading_path,
                context=row.context,
                context_key=row.context_key,
            )
            for chunk_id, (row, _) in (await self.fetch(chunk_ids)).items()
        }

    async def upsert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write or replace rows by chunk id; vectors: (rows, width), finite, of which each row's embedder has its part.

        Raises Rejected, before anything is written, if a row or the matrix is not what the store takes.
        """
        self._check_vectors(vectors, len(rows))
        shards = [shard_of(list(self._shards), row.kind) for row in rows]
        placed = [(shard, row, vector[shard.block]) for shard, row, vector in zip(shards, rows, vectors, strict=True)]
        for shard, row, vector in placed:
            size_of(shard.layout, chunk_row(row, vector))
        for shard, row, vector in placed:
            self._shards[shard][row.chunk_id] = (row, vector.astype(np.float32))

    async def ids_of(self, below: Mapping[RootId, int]) -> Mapping[RootId, set[ChunkId]]:
        """List every chunk row that versions below the given one wrote, live or not, however many."""
        found: dict[RootId, set[ChunkId]] = {checked_key(root_id): set() for root_id in below}
        for rows in self._shards.values():
            for chunk, _ in rows.values():
                if chunk.root_id in below and chunk.version < below[chunk.root_id]:
                    found[chunk.root_id].add(chunk.chunk_id)
        return found

    async def delete(self, chunk_ids: Sequence[ChunkId]) -> None:
        """Remove rows; absent ones are fine."""
        for key in map(checked_key, chunk_ids):
            for rows in self._shards.values():
                rows.pop(key, None)

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Read roots as last committed, also deleted ones."""
        return {key: self._roots[key] for key in dict.fromkeys(map(checked_key, root_ids)) if key in self._roots}

    async def pages(self, versions: Mapping[RootId, int]) -> Mapping[RootId, list[ManifestPage]]:
        """Read the manifest of one version a document, in order; missing pages are missing."""
        return {
            checked_key(root_id): [self._pages[key] for key in sorted(self._pages) if key[:2] == (root_id, version)]
            for root_id, version in versions.items()
        }

    async def places(
        self, versions: Mapping[RootId, int], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[RootId, Mapping[ChunkId, int]]:
        """Tell which of these chunks the manifests of these versions name, and in which part."""
        wanted = set(chunk_ids)
        return {
            root_id: {entry.chunk_id: page.part for page in pages for entry in page.entries if entry.chunk_id in wanted}
            for root_id, pages in (await self.pages(versions)).items()
        }

    async def parts(self, wanted: Sequence[tuple[RootId, int, int]]) -> Mapping[RootId, list[ManifestPage]]:
        """Read single pages, given by root, version and part, in order; missing ones are missing."""
        keys = set(wanted)
        versions = {root_id: version for root_id, version, _ in wanted}
        return {
            root_id: [page for page in pages if (root_id, page.version, page.part) in keys]
            for root_id, pages in (await self.pages(versions)).items()
        }

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they count for nothing until the root of their version is committed."""
        for page in pages:
            size_of(MANIFESTS, page_row(page))
        self._pages |= {(page.root_id, page.version, page.part): page for page in pages}

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots: from here readers see their versions, each root atomically; the last one of an id counts."""
        for root in roots:
            size_of(DOCUMENTS, root_row(root, slot=0, sequence=1))
        self._roots |= {root.root_id: root for root in roots}
        self._watermarks |= {watermark.partition: watermark for watermark in watermarks}

    async def promised(self, above: Mapping[RootId, int]) -> Mapping[RootId, set[ChunkId]]:
        """Name the chunks on pages of versions above the given one."""
        found: dict[RootId, set[ChunkId]] = {checked_key(root_id): set() for root_id in above}
        for (root_id, version, _), page in self._pages.items():
            if root_id in above and version > above[root_id]:
                found[root_id].update(entry.chunk_id for entry in page.entries)
        return found

    async def sweep_pages(self, below: Mapping[RootId, int]) -> None:
        """Remove all pages of versions below the given one."""
        for key in [key for key in self._pages if key[0] in below and key[1] < below[key[0]]]:
            del self._pages[key]

    async def dense(
        self,
        vectors: Floats,
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,  # noqa: ARG002 - every read is
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, width)."""
        self._check_vectors(vectors, len(scopes))
        return [
            self._ranking(scope, limit, {shard: partial(_similarity, query[shard.block]) for shard in self._shards})
            for query, scope in zip(vectors, scopes, strict=True)
        ]

    async def lexical(
        self,
        texts: Sequence[str],
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,  # noqa: ARG002 - every read is
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms, counted in each shard by itself; an empty text finds nothing."""
        score = {shard: _bm25(chunk for chunk, _ in rows.values()) for shard, rows in self._shards.items()}
        return [
            self._ranking(scope, limit, {shard: partial(of_text, text) for shard, of_text in score.items()})
            for text, scope in zip(texts, scopes, strict=True)
        ]

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Tell which of the wanted chunks a scope may see, each list in its own."""
        rows = [await self.fetch(chunk_ids) for chunk_ids in wanted]
        return [
            {chunk_id: row.root_id for chunk_id, (row, _) in fetched.items() if permits(scope, row)}
            for fetched, scope in zip(rows, scopes, strict=True)
        ]

    async def watermarks(self) -> Sequence[Watermark]:
        """Read how far each partition is."""
        return [self._watermarks[partition] for partition in sorted(self._watermarks)]

    async def all_roots(self) -> AsyncIterator[Root]:
        """Read every root, in no order."""
        for root in list(self._roots.values()):
            yield root

    async def statistics(self) -> Statistics:
        """Count."""
        deleted = sum(root.deleted for root in self._roots.values())
        return Statistics(
            documents=len(self._roots) - deleted, deleted=deleted, chunks=sum(map(len, self._shards.values()))
        )

    async def purge_deleted(self, before: Timestamp) -> int:
        """Forget deletions that became visible before then; returns how many."""
        forgotten = [key for key, root in self._roots.items() if root.deleted and root.searchable_at < before]
        for key in forgotten:
            del self._roots[key]
        return len(forgotten)

    def _check_vectors(self, vectors: Floats, rows: int) -> None:
        width = self._generation.width
        if vectors.shape != (rows, width) or not np.isfinite(vectors).all():
            raise Rejected(f"vectors of shape {vectors.shape} are not {rows} finite rows of {width}")

    def _ranking(self, scope: Scope, limit: int, scores: Mapping[Shard, Score]) -> list[Candidate]:
        """Rank the rows that the scope may see and that have a score."""
        scored = (
            (chunk, scores[shard](chunk, vector))
            for shard, rows in self._shards.items()
            for chunk, vector in rows.values()
            if permits(scope, chunk)
        )
        hits = [
            Candidate(chunk_id=chunk.chunk_id, root_id=chunk.root_id, score=value)
            for chunk, value in scored
            if value is not None
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]


def permits(scope: Scope, chunk: IndexedChunk) -> bool:
    """Tell whether a scope may see a row. Raises Rejected for a filter that breaks its contract."""
    for condition in scope.filters:
        check_filter(condition)
    return (
        chunk.tenant == scope.tenant
        and may_read(scope.principals, chunk.principals)
        and chunk.level in scope.levels
        and all(_meets(condition, chunk) for condition in scope.filters)
    )


def _meets(condition: Filter, chunk: IndexedChunk) -> bool:
    """Compare one field; an attribute that is missing differs from every value."""
    value = (
        chunk.attributes.get(condition.field.removeprefix(ATTRIBUTE))
        if condition.field.startswith(ATTRIBUTE)
        else str(getattr(chunk, condition.field))
    )
    match condition.operator:
        case FilterOperator.EQ | FilterOperator.IN:
            return value in condition.values
        case FilterOperator.NE | FilterOperator.NOT_IN:
            return value not in condition.values
        case FilterOperator.PREFIX:
            return value is not None and value.startswith(condition.values[0])


def _bm25(chunks: Iterable[IndexedChunk]) -> Callable[[str, IndexedChunk, Floats], float | None]:
    """Give the function that scores a text against one of the chunks, None where they share no term.

    Terms are what spaces separate. Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009,
    doi:10.1561/1500000019, with Lucene's idf, which is never negative.
    """
    counted = [chunk.lexical.split() for chunk in chunks]
    frequency = Counter(term for terms in counted for term in set(terms))
    mean = sum(map(len, counted)) / max(1, len(counted))

    def score(text: str, chunk: IndexedChunk, _vector: Floats) -> float | None:
        terms = chunk.lexical.split()
        counts = Counter(terms)
        parts = [
            math.log(1 + (len(counted) - frequency[term] + 0.5) / (frequency[term] + 0.5))
            * counts[term]
            * (_K1 + 1)
            / (counts[term] + _K1 * (1 - _B + _B * len(terms) / mean))
            for term in text.split()
            if counts[term]
        ]
        return math.fsum(parts) if parts else None

    return score


def _similarity(query: Floats, _chunk: IndexedChunk, vector: Floats) -> float:
    """Give the cosine; 0 where either has no length."""
    norms = float(np.linalg.norm(query) * np.linalg.norm(vector))
    return float(query @ vector) / norms if norms else 0.0
