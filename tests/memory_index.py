"""An index in memory with the promises of MilvusIndex: for tests, and to try Freki without a store."""

import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np

from freki.infra.milvus.filters import scope_expression
from freki.infra.milvus.keys import checked_key, checked_long_key
from freki.infra.milvus.layout import DOCUMENTS, MANIFESTS, size_of
from freki.infra.milvus.rows import chunk_row, content_of, page_row, root_row
from freki.infra.milvus.shards import Shard, shard_of, shards_of
from freki.infra.milvus.watermarks import farthest
from freki.schemas import ATTRIBUTE_PREFIX, ChunkId, Filter, FilterOperator, RootId, TenantId, Timestamp, may_read
from freki.schemas.arrays import Floats
from freki.schemas.errors import Rejected
from freki.schemas.index import (
    Candidate,
    ChunkContent,
    CommitId,
    Generation,
    IndexedChunk,
    ManifestPage,
    PageHead,
    PageId,
    Passage,
    Place,
    Root,
    RowHead,
    RowId,
    Scope,
    Statistics,
    StoredRow,
    Watermark,
    chunk_of_row,
    standing,
)
from tests.filter_model import holds

Rows = dict[RowId, tuple[IndexedChunk, Floats]]

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
        self._chunks: dict[ChunkId, dict[RowId, Shard]] = {}
        """The rows of each chunk, and where they stand."""
        self._roots: dict[RootId, dict[CommitId, Root]] = {}
        self._pages: dict[RootId, dict[PageId, ManifestPage]] = {}
        self._marks: dict[RootId, dict[PageId, ManifestPage]] = {}
        """Pages that are marked as checked, whether they stand or not, without their entries."""
        self._watermarks: dict[int, Watermark] = {}

    def copied(self) -> "MemoryIndex":
        """Make an index with the same content, which then changes by itself."""
        other = MemoryIndex(self._generation)
        other._shards = {shard: {**rows} for shard, rows in self._shards.items()}
        other._chunks = {key: {**rows} for key, rows in self._chunks.items()}
        other._roots = {key: {**roots} for key, roots in self._roots.items()}
        other._pages = {key: {**pages} for key, pages in self._pages.items()}
        other._marks = {key: {**marks} for key, marks in self._marks.items()}
        other._watermarks = {**self._watermarks}
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, Sequence[StoredRow]]:
        """Find the rows of chunks, by whomever they were written; chunks without rows are absent."""
        return {
            key: [_stored(self._shards[shard][row_id][0]) for row_id, shard in self._chunks[key].items()]
            for key in dict.fromkeys(map(checked_key, chunk_ids))
            if key in self._chunks
        }

    async def fetch(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
        """Read rows with their vectors, shape (width,), which are 0 but for the numbers of their embedder."""
        keys = dict.fromkeys(map(checked_long_key, row_ids))
        return {
            key: (rows[key][0], shard.widened(rows[key][1]))
            for shard, rows in self._shards.items()
            for key in keys
            if key in rows
        }

    async def contents(self, row_ids: Sequence[RowId]) -> Mapping[RowId, tuple[ChunkContent, Floats]]:
        """Read what ranking and answers need of rows, with their vectors."""
        found = await self.fetch(row_ids)
        return {row_id: (content_of(chunk_row(row, vector)), vector) for row_id, (row, vector) in found.items()}

    async def passages(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Passage]:
        """Read texts with their headings and contexts."""
        return {
            row_id: Passage(
                text=row.text,
                heading_path=row.heading_path,
                context=row.context,
                context_key=row.context_key,
            )
            for row_id, (row, _) in (await self.fetch(row_ids)).items()
        }

    async def match_codes(self, row_ids: Sequence[RowId]) -> Mapping[RowId, str]:
        """Read the codes of rows."""
        return {row_id: row.match_code for row_id, (row, _) in (await self.fetch(row_ids)).items()}

    async def insert(self, rows: Sequence[IndexedChunk], vectors: Floats) -> None:
        """Write rows; vectors: (rows, width), finite, of which each row's embedder has its part.

        Raises Rejected, before anything is written, if a row or the matrix is not what the store takes. The store does
        not look for a row with the same key, and takes the chunk from the key: here others are an error of the test.
        """
        self._check_vectors(vectors, len(rows))
        shards = [shard_of(list(self._shards), row.kind) for row in rows]
        placed = [(shard, row, vector[shard.block]) for shard, row, vector in zip(shards, rows, vectors, strict=True)]
        for shard, row, vector in placed:
            size_of(shard.layout, chunk_row(row, vector))
        twice = [row.row_id for shard, row, _ in placed if row.row_id in self._shards[shard]]
        assert not twice, f"rows were written before: {twice}"
        assert all(chunk_of_row(row.row_id) == row.chunk_id for row in rows), "a key is not of its chunk"
        for shard, row, vector in placed:
            self._shards[shard][row.row_id] = (row, vector.astype(np.float32))
            self._chunks.setdefault(row.chunk_id, {})[row.row_id] = shard

    async def rows_of(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[RowHead]]:
        """List every chunk row of documents, live or not."""
        found: dict[RootId, list[RowHead]] = {checked_key(root_id): [] for root_id in root_ids}
        for rows in self._shards.values():
            for chunk, _ in rows.values():
                if chunk.root_id in found:
                    found[chunk.root_id].append(_head(chunk))
        return found

    async def delete(self, row_ids: Sequence[RowId]) -> None:
        """Remove rows; absent ones are fine."""
        for key in map(checked_long_key, row_ids):
            for rows in self._shards.values():
                if (row := rows.pop(key, None)) is not None:
                    of_chunk = self._chunks[row[0].chunk_id]
                    del of_chunk[key]
                    if not of_chunk:
                        del self._chunks[row[0].chunk_id]

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Read the root of each document that counts, also deleted ones."""
        every = await self.commits(root_ids)
        return {root_id: root for root_id, roots in every.items() if (root := standing(roots)) is not None}

    async def roots_from(self, source_uris: Collection[str]) -> Sequence[Root]:
        """Read the roots of live documents with one of these sources."""
        if wrong := [uri for uri in source_uris if not re.fullmatch(r"[A-Za-z0-9._~:/%-]+", uri)]:
            raise Rejected(f"{wrong[0]!r} is no address of a file")
        found = [root async for root in self.all_roots() if not root.deleted and root.source_uri in source_uris]
        return sorted(found, key=lambda root: root.root_id)

    async def commits(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[Root]]:
        """Read all roots of documents, also those that do not count any more."""
        return {key: list(self._roots.get(key, {}).values()) for key in map(checked_key, root_ids)}

    async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
        """Read manifest pages; missing ones are missing."""
        pages = ((key, self._pages.get(_root_of(key), {}).get(key)) for key in map(checked_long_key, page_ids))
        return {key: page for key, page in pages if page is not None}

    async def naming(
        self, root_ids: Sequence[RootId], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[PageId, Mapping[ChunkId, Place]]:
        """Tell what the pages of documents name that name any of these chunks."""
        wanted = set(map(checked_key, chunk_ids))
        return {
            page.page_id: places
            for key in map(checked_key, root_ids)
            for page in self._pages.get(key, {}).values()
            if not wanted.isdisjoint(places := _places(page))
        }

    async def page_heads(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Sequence[PageHead]]:
        """List all manifest pages of documents, whether a root names them or not, and marks whose page is gone."""
        return {
            key: [self._page_head(page) for page in (self._marks.get(key, {}) | self._pages.get(key, {})).values()]
            for key in map(checked_key, root_ids)
        }

    async def write_pages(self, pages: Sequence[ManifestPage]) -> None:
        """Write pages; they count for nothing until a root names them."""
        for page in pages:
            size_of(MANIFESTS, page_row(page))
        for page in pages:
            self._pages.setdefault(page.root_id, {})[page.page_id] = page

    async def mark_checked(self, pages: Sequence[ManifestPage]) -> None:
        """Note of pages that a root may name them."""
        for page in pages:
            self._marks.setdefault(page.root_id, {})[page.page_id] = replace(page, entries=())

    async def commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        """Write roots: from here readers see their revisions, each as a whole. Watermarks never fall back."""
        for root in roots:
            size_of(DOCUMENTS, root_row(root))
        for root in roots:
            self._roots.setdefault(root.root_id, {})[root.commit_id] = root
        for mark in watermarks:
            counted = replace(mark, commits=1)
            before = self._watermarks.get(mark.partition, replace(mark, commits=0))
            self._watermarks |= farthest([before, counted])

    async def discard(self, pages: Sequence[PageId], commits: Sequence[CommitId] = ()) -> None:
        """Remove pages and roots; absent ones are fine."""
        for page_id in map(checked_long_key, pages):
            self._pages.get(_root_of(page_id), {}).pop(page_id, None)
            self._marks.get(_root_of(page_id), {}).pop(page_id, None)
        for commit_id in map(checked_long_key, commits):
            self._roots.get(_root_of(commit_id), {}).pop(commit_id, None)

    async def dense(
        self,
        vectors: Floats,
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,  # noqa: ARG002 - every read is
        bypass_cache: bool = False,  # noqa: ARG002 - nothing is kept
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
        bypass_cache: bool = False,  # noqa: ARG002 - nothing is kept
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
        found: list[Mapping[ChunkId, RootId]] = []
        for chunk_ids, scope in zip(wanted, scopes, strict=True):
            stored = await self.stored(chunk_ids)
            rows = await self.fetch([row.row_id for rows in stored.values() for row in rows])
            found.append({row.chunk_id: row.root_id for row, _ in rows.values() if permits(scope, row)})
        return found

    async def watermarks(self) -> Sequence[Watermark]:
        """Read how far each partition is."""
        return [self._watermarks[partition] for partition in sorted(self._watermarks)]

    async def all_roots(
        self, after: RootId | None = None, *, tenant: TenantId | None = None, prefix: str = ""
    ) -> AsyncIterator[Root]:
        """Read the root of every document that counts, in the order of their ids; after: only those above it."""
        for key in sorted(self._roots):
            if after is not None and key <= after:
                continue
            counts = standing(self._roots.get(key, {}).values())
            if counts is None or (tenant is not None and counts.tenant != tenant):
                continue
            if counts.document_id.startswith(prefix):
                yield counts

    async def all_rows(self) -> AsyncIterator[Sequence[tuple[RootId, RowHead]]]:
        """List every chunk row, in no order."""
        for rows in self._shards.values():
            yield [(chunk.root_id, _head(chunk)) for chunk, _ in rows.values()]

    async def statistics(self) -> Statistics:
        """Count."""
        roots = [root for commits in self._roots.values() for root in commits.values()]
        deleted = sum(root.deleted for root in roots)
        return Statistics(documents=len(roots) - deleted, deleted=deleted, chunks=sum(map(len, self._shards.values())))

    async def count_made_otherwise(self, fingerprints: Collection[str]) -> int:
        """Count live documents."""
        roots = [root for commits in self._roots.values() for root in commits.values()]
        return sum(not root.deleted and root.fingerprint not in fingerprints for root in roots)

    async def take_over_watermarks(self, _: Timestamp) -> int:
        """All processes have one watermark here."""
        return 0

    async def purge_deleted(self, before: Timestamp, *, first: Callable[[Root], Awaitable[bool]] | None = None) -> int:
        """Forget deletions that became visible before then and left nothing else behind; returns how many.

        first: says whether a root may go; a document goes if all of its roots may, and nothing came meanwhile.
        """
        forgotten = await self._forgettable(before)
        if first is not None:
            kept = {key for key in forgotten for root in list(self._roots[key].values()) if not await first(root)}
            forgotten = [key for key in await self._forgettable(before) if key in {*forgotten} - kept]
        for key in forgotten:
            del self._roots[key]
        return len(forgotten)

    async def _forgettable(self, before: Timestamp) -> list[RootId]:
        rows, heads = await self.rows_of(list(self._roots)), await self.page_heads(list(self._roots))
        return [
            key
            for key, roots in self._roots.items()
            if roots
            and not rows[key]
            and not heads[key]
            and all(root.deleted and root.searchable_at < before for root in roots.values())
        ]

    def _page_head(self, page: ManifestPage) -> PageHead:
        return PageHead(
            page_id=page.page_id,
            version=page.version,
            edition=page.edition,
            attempt=page.attempt,
            part=page.part,
            cut=page.cut,
            checked=all(page.page_id in held.get(page.root_id, {}) for held in (self._pages, self._marks)),
            row_ids=tuple(entry.row_id for entry in page.entries),
        )

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
            Candidate(
                chunk_id=chunk.chunk_id,
                row_id=chunk.row_id,
                root_id=chunk.root_id,
                score=value,
                version=chunk.version,
                edition=chunk.edition,
            )
            for chunk, value in scored
            if value is not None
        ]
        best: dict[ChunkId, Candidate] = {}
        for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]:
            best.setdefault(hit.chunk_id, hit)
        return list(best.values())


def _root_of(key: str) -> RootId:
    """Read the document from the key of a page or root."""
    return RootId(key.partition(":")[0])


def _head(chunk: IndexedChunk) -> RowHead:
    return RowHead(row_id=chunk.row_id, version=chunk.version, edition=chunk.edition)


def _stored(chunk: IndexedChunk) -> StoredRow:
    return StoredRow(
        row_id=chunk.row_id,
        chunk_id=chunk.chunk_id,
        kind=chunk.kind,
        embedder=chunk.embedder,
        metadata_hash=chunk.metadata_hash,
        context_key=chunk.context_key,
    )


def permits(scope: Scope, chunk: IndexedChunk) -> bool:
    """Tell whether a scope may see a row. Raises Rejected for a filter that breaks its contract."""
    scope_expression(scope)
    return (
        chunk.tenant == scope.tenant
        and may_read(scope.principals, chunk.principals)
        and chunk.level in scope.levels
        and not scope.left_out.has(chunk.root_id, chunk.attributes)
        and all(_meets(condition, chunk) for condition in scope.filters)
        and (scope.where is None or holds(scope.where, chunk))
    )


def _meets(condition: Filter, chunk: IndexedChunk) -> bool:
    """Compare one field; an attribute that is missing differs from every value."""
    value = (
        chunk.attributes.get(condition.field.removeprefix(ATTRIBUTE_PREFIX))
        if condition.field.startswith(ATTRIBUTE_PREFIX)
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


def _places(page: ManifestPage) -> dict[ChunkId, Place]:
    return {
        entry.chunk_id: Place(page.page_id, entry.row_id, index, len(page.entries))
        for index, entry in enumerate(page.entries)
    }
