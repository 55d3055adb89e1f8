"""A store that may die at any write, and revisions of documents to put into it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from freki.infra.models.fake import FakeEmbedder
from freki.infra.models.multi_embedder import Family, UnrelatedCosines
from freki.infra.models.vectors import VectorCache
from freki.operators.analyse_text import analyse_text
from freki.operators.identify import chunk_id, chunk_id_of_kind, root_id
from freki.schemas import (
    Chunk,
    ChunkKind,
    ContextualChunk,
    ContextualChunkBatch,
    DocumentId,
    IndexOutcome,
    Revision,
    RevisionOperation,
    RootId,
    TenantId,
    Timestamp,
)
from freki.schemas.arrays import Floats
from freki.schemas.index import Generation, IndexedChunk, KindEmbedder, RowId
from freki.streams.ingest.index import Indexer, IndexRules, ReceivedPart
from tests.memory_index import MemoryIndex

TENANT = TenantId("t")
ANALYSER = "plain-1"
WRITES = ("insert", "write_pages", "mark_checked", "commit", "delete", "discard")


class Crash(Exception):
    """The process is gone."""


@dataclass
class Crashing:
    """A store whose process dies at the n-th write, before or after its effect."""

    index: MemoryIndex
    dies_at: int
    after: bool
    writes: int = 0

    def __getattr__(self, name: str) -> Any:
        call: Callable[..., Awaitable[Any]] = getattr(self.index, name)
        if name not in WRITES:
            return call

        async def write(*args: Any) -> Any:
            self.writes += 1
            dies = self.writes == self.dies_at
            if dies and not self.after:
                raise Crash
            result = await call(*args)
            if dies:
                raise Crash
            return result

        return write


def a_family() -> Family:
    """Make an embedder for code beside one for all else."""
    code = ((ChunkKind.CODE,), FakeEmbedder(dim=48))
    return Family(FakeEmbedder(dim=64), [code], [UnrelatedCosines(0.4, 0.4), UnrelatedCosines(0.3, 0.3)])


def apart_index() -> MemoryIndex:
    """Make an index for that family."""
    code = KindEmbedder(kinds=(ChunkKind.CODE,), embedder="fake@48+aligned1", dim=49)
    return MemoryIndex(
        Generation(name="g1", embedder="fake@64+aligned1", dim=65, analyser=ANALYSER, kind_embedders=(code,))
    )


@dataclass
class World:
    """A store, a clock, and the events that were sent so far."""

    index: MemoryIndex = field(
        default_factory=lambda: MemoryIndex(Generation(name="g1", embedder="fake", dim=16, analyser=ANALYSER))
    )
    ticks: Any = field(default_factory=lambda: count(1_000))
    embedder: FakeEmbedder | Family = field(default_factory=lambda: FakeEmbedder(dim=16))
    vectors: VectorCache = field(default_factory=lambda: VectorCache("fake", 0))

    def indexer(self, store: Any | None = None, *, slice_tokens: int = 40) -> Indexer:
        return Indexer(
            IndexRules(
                generation="g1",
                analyse_text=analyse_text,
                analyser=ANALYSER,
                slice_tokens=slice_tokens,
            ),
            store=store or self.index,
            embedder=self.embedder,
            vectors=self.vectors,
            now=lambda: Timestamp(next(self.ticks)),
        )

    async def feed(
        self, batches: Iterable[ContextualChunkBatch], store: Any | None = None, *, edition: int = 0
    ) -> list[IndexOutcome]:
        outcomes = []
        async for some in self.indexer(store).index([ReceivedPart(batch, 0, edition) for batch in batches]):
            outcomes += some
        return outcomes

    async def texts(self, document: str) -> list[str] | None:
        """What a reader sees of a document; None where it is gone. Fails where it would see a hole."""
        key = root_id(TENANT, DocumentId(document))
        root = (await self.index.roots([key])).get(key)
        if root is None or root.deleted:
            return None
        pages = await self.index.pages(root.pages)
        entries = sorted((entry for page in pages.values() for entry in page.entries), key=lambda entry: entry.ordinal)
        rows = await self.index.fetch([entry.row_id for entry in entries])
        assert len(pages) == len(root.pages)
        return [rows[entry.row_id][0].text for entry in entries]

    async def rows(self, document: str) -> list[IndexedChunk]:
        """All chunk rows of a document."""
        return [row for row, _ in (await rows_of(self.index, root_id(TENANT, DocumentId(document)))).values()]

    async def contexts(self, document: str) -> dict[str, str]:
        """Contexts of the rows that a document has, by their texts."""
        return {row.text: row.context for row in await self.rows(document)}

    async def leftovers(self) -> int:
        """Chunk rows that no live manifest names."""
        left = 0
        for document in "ab":
            left += len(await self.rows(document)) - len(await self.texts(document) or [])
        return left


async def rows_of(index: MemoryIndex, key: RootId) -> Mapping[RowId, tuple[IndexedChunk, Floats]]:
    """All chunk rows of a document, with their vectors."""
    heads = (await index.rows_of([key]))[key]
    return await index.fetch(sorted(head.row_id for head in heads))


def revision(
    document: str, version: int, texts: Sequence[str] | None, *, code: Collection[str] = (), **changes: Any
) -> list[ContextualChunkBatch]:
    """Make the parts of a revision, two chunks each; None: a deletion. code: texts whose kind has its own embedder."""
    operation = RevisionOperation.DELETE if texts is None else RevisionOperation.UPSERT
    head = Revision(
        **{
            "tenant": TENANT,
            "document_id": DocumentId(document),
            "operation": operation,
            "version": version,
            "name": document,
            "media_type": "text/plain",
            "language": "de",
            "source_uri": None,
            "principals": ("everyone",),
            "attributes": {},
            "priority": 0,
            "content_hash": "" if texts is None else "|".join(texts),
            "chunker": "" if texts is None else "c1",
            "characters": 0,
            "occurred_at": Timestamp(version),
            "recorded_at": Timestamp(version),
            "received_at": Timestamp(version),
            **changes,
        }
    )
    chunks = [_chunk(document, ordinal, text, is_code=text in code) for ordinal, text in enumerate(texts or ())]
    parts = [tuple(chunks[at : at + 2]) for at in range(0, len(chunks), 2)] or [()]
    return [
        ContextualChunkBatch(revision=head, part=number, parts=len(parts), chunks=part)
        for number, part in enumerate(parts)
    ]


def situated_by(batches: Sequence[ContextualChunkBatch], key: str, *texts: str) -> list[ContextualChunkBatch]:
    """Give the chunks of these texts another context."""
    return [
        replace(
            batch,
            chunks=tuple(
                replace(each, context=f"{each.context} {key}", context_key=key) if each.chunk.text in texts else each
                for each in batch.chunks
            ),
        )
        for batch in batches
    ]


def _chunk(document: str, ordinal: int, text: str, *, is_code: bool) -> ContextualChunk:
    own = chunk_id(TENANT, DocumentId(document), level=2, heading_path=(), text=text, occurrence=0)
    chunk = Chunk(
        chunk_id=chunk_id_of_kind(own, ChunkKind.CODE) if is_code else own,
        level=2,
        path=f"0/{ordinal}",
        ordinal=ordinal,
        start=ordinal,
        end=ordinal + 1,
        kind=ChunkKind.CODE if is_code else ChunkKind.PROSE,
        heading_path=(),
        text=text,
        overlap="",
        tokens=10,
    )
    return ContextualChunk(chunk=chunk, context=document)
