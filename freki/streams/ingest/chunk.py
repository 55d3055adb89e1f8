"""First stage: split a document change into the chunks of a revision."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from opentelemetry.trace import Tracer, get_current_span

from freki.operators.define import used
from freki.operators.errors import InvalidChange
from freki.operators.validate_change import validate_change
from freki.schemas import (
    Chunk,
    ChunkBatch,
    Definition,
    DocumentChange,
    DocumentId,
    Operation,
    Revision,
    RevisionOperation,
    TenantId,
    Timestamp,
)
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.lanes import priority_in
from freki.streams.deliver.outbox import Sink
from freki.streams.ingest.outline import Outline, Outliner
from freki.streams.messages import Received, recorded_at, version_in
from freki.streams.observe import attributes
from freki.streams.observe.tracing import UNTRACED, Attributes, describe, of_document, step
from freki.streams.ports import ClaimReader

# Four bytes a character at worst, and overlaps: a part stays below the smallest record limit in use, 1 MB.
PART_CHARACTERS = 100_000


class Chunker:
    """Makes the chunks of a document change."""

    def __init__(
        self,
        *,
        claims: ClaimReader,
        outliner: Outliner,
        part_chunks: int,
        now: Callable[[], Timestamp],
        tracer: Tracer = UNTRACED,
    ) -> None:
        self._tracer = tracer
        self._claims = claims
        self._outliner = outliner
        self._part_chunks = part_chunks
        self._now = now

    async def revise(self, received: Received[DocumentChange | None]) -> list[ChunkBatch]:
        """Give the parts of the revision, in order; a deletion is one part without chunks."""
        key = received.key.decode(errors="replace")
        change = received.value
        recorded = recorded_at(received.headers, received.timestamp)
        if change is None:
            return [_one_part(self._tombstone(key, received, recorded))]
        validate_change(change, key=key)
        if change.operation is Operation.DELETE:
            return [_one_part(self._deletion(change, recorded))]
        received_at = self._now()
        content = change.content if change.claim is None else await self._claims.get(change.claim)
        if content is None:
            raise InvalidChange("content: an UPSERT needs either content or claim; neither given")
        with step(self._tracer, "outline", trace=received.trace) as span:
            outline = await self._outliner(change, content)
            describe(span, lambda: {attributes.FREKI_ITEMS: len(outline.chunks)})
        revision = Revision(
            tenant=change.tenant,
            document_id=change.document_id,
            operation=RevisionOperation.UPSERT,
            version=change.version,
            name=outline.name,
            media_type=outline.media_type,
            language=outline.language,
            source_uri=change.source_uri,
            principals=change.principals,
            attributes=outline.attributes,
            priority=max(change.priority, priority_in(received.headers)),
            content_hash=content_hash(content),
            chunker=outline.chunker,
            characters=outline.characters,
            occurred_at=change.occurred_at,
            recorded_at=recorded,
            received_at=received_at,
        )
        parts = list(_parts(outline, self._part_chunks)) or [()]
        batches = []
        for number, part in enumerate(parts):
            chunks, windows = _own_windows(part, outline.windows)
            batches.append(
                ChunkBatch(
                    revision=revision,
                    part=number,
                    parts=len(parts),
                    chunks=chunks,
                    definitions=_used(outline.definitions, chunks),
                    lead=outline.lead,
                    windows=windows,
                )
            )
        return batches

    def _tombstone(self, key: str, received: Received[DocumentChange | None], recorded: Timestamp) -> Revision:
        """Take a tombstone that names the version of its deletion as that deletion once more."""
        tenant, slash, document_id = key.partition("/")
        if not (tenant and slash and document_id):
            raise InvalidChange(f"key: {key[:200]!r} is not tenant/document_id, so the tombstone names no document")
        version = version_in(received.headers)
        operation = RevisionOperation.DELETE if version else RevisionOperation.TOMBSTONE
        return self._removal(operation, TenantId(tenant), DocumentId(document_id), recorded, version=version)

    def _deletion(self, change: DocumentChange, recorded_at: Timestamp) -> Revision:
        return self._removal(
            RevisionOperation.DELETE,
            change.tenant,
            change.document_id,
            recorded_at,
            version=change.version,
            occurred_at=change.occurred_at,
            priority=change.priority,
        )

    def _removal(
        self,
        operation: RevisionOperation,
        tenant: TenantId,
        document_id: DocumentId,
        recorded_at: Timestamp,
        *,
        version: int = 0,
        occurred_at: Timestamp | None = None,
        priority: int = 0,
    ) -> Revision:
        return Revision(
            tenant=tenant,
            document_id=document_id,
            operation=operation,
            version=version,
            name="",
            media_type="",
            language="und",
            source_uri=None,
            principals=(),
            attributes={},
            priority=priority,
            content_hash="",
            chunker="",
            characters=0,
            occurred_at=recorded_at if occurred_at is None else occurred_at,
            recorded_at=recorded_at,
            received_at=self._now(),
        )


def chunk_handler(
    chunker: Chunker, sink: Sink[ChunkBatch], *, large: Sink[ChunkBatch] | None = None, max_in_flight: int = 1
) -> Handle[DocumentChange | None]:
    """Send the parts of each document as soon as they are made; high priority first, in order per document.

    sink, large: for revisions of one part and of more parts; None: the same.
    max_in_flight: documents that are chunked at the same time, and not sent yet.
    """

    async def handle(batch: Sequence[Received[DocumentChange | None]]) -> None:
        places = asyncio.Semaphore(max_in_flight)

        async def revised(received: Received[DocumentChange | None]) -> list[ChunkBatch]:
            await places.acquire()
            return await chunker.revise(received)

        ordered = _important_first(batch)
        revising = [asyncio.create_task(revised(received)) for received in ordered]
        try:
            for received, parts in zip(ordered, revising, strict=True):
                await send(received, await parts)
                places.release()
        finally:
            for task in revising:
                task.cancel()
            await asyncio.gather(*revising, return_exceptions=True)

    async def send(received: Received[DocumentChange | None], parts: Sequence[ChunkBatch]) -> None:
        describe(get_current_span(received.trace), partial(_described, parts))
        target = sink if large is None or len(parts) == 1 else large
        await target.send(*(target.record(part, key=received.key, trace=received.trace) for part in parts))

    return handle


def content_hash(content: str | bytes) -> str:
    """Give the hexadecimal SHA-256 of a document's content as its producer gave it; text counts as UTF-8."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def _important_first(batch: Sequence[Received[DocumentChange | None]]) -> list[Received[DocumentChange | None]]:
    """Order by the highest priority that any change of the document has, so that its changes stay in order."""
    highest: dict[bytes, int] = {}
    for received in batch:
        priority = 0 if received.value is None else received.value.priority
        highest[received.key] = max(highest.get(received.key, priority), priority)
    return sorted(batch, key=lambda received: -highest[received.key])


def _described(parts: Sequence[ChunkBatch]) -> Attributes:
    return {
        **of_document(parts[0].revision),
        attributes.FREKI_PARTS: len(parts),
        attributes.FREKI_CHUNKS: sum(len(part.chunks) for part in parts),
    }


def _one_part(revision: Revision) -> ChunkBatch:
    return ChunkBatch(revision=revision, part=0, parts=1, chunks=())


def _used(definitions: Sequence[Definition], chunks: Sequence[Chunk]) -> tuple[Definition, ...]:
    """Choose what a part needs: of a long list of abbreviations that is little."""
    text = "\n".join(line for chunk in chunks for line in (*chunk.heading_path, chunk.text)) if definitions else ""
    return tuple(used(definitions, text))


def _parts(outline: Outline, most: int) -> Iterator[tuple[Chunk, ...]]:
    part: list[Chunk] = []
    characters = 0
    for chunk in outline.chunks:
        is_new = chunk.window >= 0 and all(each.window != chunk.window for each in part)
        size = len(chunk.text) + (len(outline.windows[chunk.window]) if is_new else 0)
        if part and (len(part) == most or characters + size > PART_CHARACTERS):
            yield tuple(part)
            part, characters = [], 0
        part.append(chunk)
        characters += size
    if part:
        yield tuple(part)


def _own_windows(chunks: Sequence[Chunk], windows: Sequence[str]) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
    """Keep of a document's windows those that some of its chunks name, and number them anew."""
    named = sorted({chunk.window for chunk in chunks if chunk.window >= 0})
    places = {window: place for place, window in enumerate(named)}
    renamed = tuple(replace(chunk, window=places[chunk.window]) if chunk.window >= 0 else chunk for chunk in chunks)
    return renamed, tuple(windows[window] for window in named)
