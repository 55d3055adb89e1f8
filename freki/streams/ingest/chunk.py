"""Chunk stage: split a document change into the chunks of a revision."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain

from opentelemetry.context import Context
from opentelemetry.trace import Tracer, get_current_span

from freki.client.tasks import cancel_and_wait
from freki.operators.breadcrumb import MAX_CHARS as BREADCRUMB_CHARS
from freki.operators.define import LINE_CHARS, used
from freki.operators.errors import InfectedContent, InvalidChange
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
from freki.streams.ingest.limit_changes import check_batch, removal_of, upsert_of
from freki.streams.ingest.outline import Outline, Outliner
from freki.streams.limits.changes import ChangeLimits
from freki.streams.messages import (
    VERSION_HEADER,
    Outgoing,
    Received,
    edition_in,
    has_unreadable_version,
    recorded_at,
    request_in,
    version_in,
)
from freki.streams.observe import attributes
from freki.streams.observe.tracing import UNTRACED, Attributes, describe, of_document, step
from freki.streams.ports import ClaimReader, Scanner

PART_CHARACTERS = 180_000
"""Maximum characters of all texts of a part, contexts by rules included: at 4 bytes each it fits, with attributes and
the like, the smallest record limit in use, 1 MB."""
_CONTEXT_CHARACTERS = BREADCRUMB_CHARS + LINE_CHARS
"""Maximum characters of a breadcrumb and of explained abbreviations, which the next stage adds to a chunk."""
_VERDICT_CHARS = 200

_Chunked = tuple[Received[DocumentChange | None], Sequence[ChunkBatch]]


class Chunker:
    """Chunker of document changes."""

    def __init__(
        self,
        *,
        claims: ClaimReader,
        outliner: Outliner,
        part_chunks: int,
        now: Callable[[], Timestamp],
        tracer: Tracer = UNTRACED,
        scanner: Scanner | None = None,
        limits: ChangeLimits | None = None,
    ) -> None:
        """Create a chunker.

        scanner: of all content before it is parsed, None: nothing is scanned; limits: of tenants, None: there are none.
        """
        self._tracer = tracer
        self._claims = claims
        self._scanner = scanner
        self._limits = limits
        self._outliner = outliner
        self._part_chunks = part_chunks
        self._now = now

    async def check(self, batch: Sequence[Received[DocumentChange | None]]) -> None:
        """Raise OverLimit if a limit refuses a change of the batch whatever its text is. Raises Unavailable."""
        if self._limits is not None:
            await check_batch(self._limits, batch)

    def is_light(self, change: DocumentChange | None) -> bool:
        """Return whether many changes like this one may be chunked at a time: deletions, and short text in the change.

        With a scanner no text is: it may be a process for each document.
        """
        if change is None or change.operation is Operation.DELETE:
            return True
        content = change.content
        return self._scanner is None and isinstance(content, str) and self._outliner.is_light(content)

    async def revise(self, received: Received[DocumentChange | None]) -> list[ChunkBatch]:
        """Return the parts of the revision, in order; a deletion has one part without chunks.

        Raises InvalidChange, InfectedContent, OverLimit, and the errors of loading, scanning and parsing content.
        """
        key = _text_of(received.key)
        change = received.value
        recorded = recorded_at(received.headers, received.timestamp)
        if change is None:
            return await self._removed(self._tombstone(key, received, recorded), received)
        validate_change(change, key=key)
        if change.operation is Operation.DELETE:
            return await self._removed(self._deletion(change, recorded), received)
        received_at = self._now()
        content = change.content if change.claim is None else await self._claims.get(change.claim)
        if content is None:
            raise InvalidChange("content: an UPSERT needs content or claim, and has neither")
        scanned = await self._scanned(content, received.trace)
        with step(self._tracer, "outline", trace=received.trace) as span:
            outline = await self._outliner(change, content)
            describe(span, lambda: {attributes.FREKI_ITEMS: len(outline.chunks)})
        if self._limits is not None:
            await self._limits.admit(
                upsert_of(
                    change,
                    received,
                    published_bytes=len(content if isinstance(content, bytes) else content.encode()),
                    characters=outline.characters,
                    tokens=sum(chunk.tokens for chunk in outline.chunks),
                    content_hash=content_hash(content),
                )
            )
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
            priority=_priority(received),
            content_hash=content_hash(content),
            chunker=outline.chunker,
            characters=outline.characters,
            occurred_at=change.occurred_at,
            recorded_at=recorded,
            received_at=received_at,
            scan=scanned,
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

    async def _removed(self, revision: Revision, received: Received[DocumentChange | None]) -> list[ChunkBatch]:
        """Return the part of a deletion, which no limit refuses; its room is free with its receipt."""
        if self._limits is not None:
            await self._limits.admit(removal_of(revision, received))
        return [_one_part(revision)]

    async def _scanned(self, content: str | bytes, trace: Context) -> str:
        """Return the scanner and its verdict; empty without a scanner. Raises InfectedContent."""
        scanner = self._scanner
        if scanner is None:
            return ""
        with step(self._tracer, "scan", trace=trace):
            found = await scanner.scan(content if isinstance(content, bytes) else content.encode())
        if found is not None:
            raise InfectedContent(f"scan: {found[:_VERDICT_CHARS]} ({scanner.engine})")
        return f"{scanner.engine}: clean"

    def _tombstone(self, key: str, received: Received[DocumentChange | None], recorded: Timestamp) -> Revision:
        """Return the revision of a tombstone; one with the version of its deletion repeats that deletion."""
        tenant, slash, document_id = key.partition("/")
        if not (tenant and slash and document_id):
            raise InvalidChange(f"key: {key[:200]!r} is not tenant/document_id, so the tombstone names no document")
        if has_unreadable_version(received.headers):
            raise InvalidChange(
                f"{VERSION_HEADER}: it is no whole number from 1 to 2^63-1, so nobody knows which version the null "
                "value deletes; send the version in decimal digits, or no such header to delete all recorded before"
            )
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
    """Return a handler that sends the parts of each document once it is chunked, with those of all others that are.

    High priority is begun first; changes of one document stay in order.
    sink, large: of one outbox, for revisions of one part and of several parts; large None: `sink` for both.
    max_in_flight: maximum documents that are being chunked or wait to be sent, besides those with light changes only.
    """

    async def handle(batch: Sequence[Received[DocumentChange | None]]) -> None:
        await chunker.check(batch)
        chunked: asyncio.Queue[_Chunked] = asyncio.Queue()
        slots = asyncio.Semaphore(max_in_flight)
        works = [asyncio.create_task(_revise(chunker, changes, chunked, slots)) for changes in _by_document(batch)]
        works.append(asyncio.create_task(send(chunked, len(batch))))
        try:
            # Unlike a task group it also fails if one of them is cancelled: its records would count as done.
            await asyncio.gather(*works)
        finally:
            await cancel_and_wait(works)

    async def send(chunked: asyncio.Queue[_Chunked], left: int) -> None:
        while left:
            revisions = [await chunked.get()]
            while not chunked.empty():
                revisions.append(chunked.get_nowait())
            await sink.send(*chain.from_iterable(outgoing(received, parts) for received, parts in revisions))
            for _ in revisions:
                chunked.task_done()
            left -= len(revisions)

    def outgoing(received: Received[DocumentChange | None], parts: Sequence[ChunkBatch]) -> Iterator[Outgoing]:
        describe(get_current_span(received.trace), partial(_described, parts))
        target = sink if large is None or len(parts) == 1 else large
        request = request_in(received.headers)
        return (target.record(part, key=received.key, trace=received.trace, headers=request) for part in parts)

    return handle


async def _revise(
    chunker: Chunker,
    changes: Sequence[Received[DocumentChange | None]],
    chunked: asyncio.Queue[_Chunked],
    slots: asyncio.Semaphore,
) -> None:
    """Chunk the changes of a document, one after the other; a long one keeps its slot until it is sent."""
    is_light = all(chunker.is_light(received.value) for received in changes)
    async with nullcontext() if is_light else slots:
        for received in changes:
            chunked.put_nowait((received, await chunker.revise(received)))
            if not is_light:
                await chunked.join()


def content_hash(content: str | bytes) -> str:
    """Return the hexadecimal SHA-256 of a document's content as published; text is encoded as UTF-8."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def _text_of(key: bytes) -> str:
    """Return a key as text. Raises InvalidChange where it is none: replacements would make it another document's."""
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise InvalidChange(f"key: {key[:200]!r} is not UTF-8, as tenant/document_id must be") from error


def _by_document(batch: Sequence[Received[DocumentChange | None]]) -> list[list[Received[DocumentChange | None]]]:
    """Return the changes of each document in order; documents with a change of high priority first."""
    changes: dict[bytes, list[Received[DocumentChange | None]]] = {}
    for received in batch:
        changes.setdefault(received.key, []).append(received)
    return sorted(changes.values(), key=lambda each: -max(map(_priority, each)))


def _priority(received: Received[DocumentChange | None]) -> int:
    """Return the higher of the priorities in a change and its headers; 0 for a version that is reindexed."""
    if received.value is None or edition_in(received.headers):
        return 0
    return max(received.value.priority, priority_in(received.headers))


def _described(parts: Sequence[ChunkBatch]) -> Attributes:
    return {
        **of_document(parts[0].revision),
        attributes.FREKI_PARTS: len(parts),
        attributes.FREKI_CHUNKS: sum(len(part.chunks) for part in parts),
    }


def _one_part(revision: Revision) -> ChunkBatch:
    return ChunkBatch(revision=revision, part=0, parts=1, chunks=())


def _used(definitions: Sequence[Definition], chunks: Sequence[Chunk]) -> tuple[Definition, ...]:
    """Return the definitions that the chunks of a part use, usually few of a long list of abbreviations."""
    text = "\n".join(line for chunk in chunks for line in (*chunk.heading_path, chunk.text)) if definitions else ""
    return tuple(used(definitions, text))


def _parts(outline: Outline, max_chunks: int) -> Iterator[tuple[Chunk, ...]]:
    part: list[Chunk] = []
    characters = 0
    for chunk in outline.chunks:
        is_new = chunk.window >= 0 and all(each.window != chunk.window for each in part)
        size = _characters(chunk) + (len(outline.windows[chunk.window]) if is_new else 0)
        if part and (len(part) == max_chunks or characters + size > PART_CHARACTERS):
            yield tuple(part)
            part, characters = [], 0
        part.append(chunk)
        characters += size
    if part:
        yield tuple(part)


def _characters(chunk: Chunk) -> int:
    """Return the characters of a chunk in the record of its context, which has its header twice."""
    texts = (chunk.text, chunk.overlap, chunk.header, chunk.header, *chunk.heading_path)
    return sum(map(len, texts)) + _CONTEXT_CHARACTERS


def _own_windows(chunks: Sequence[Chunk], windows: Sequence[str]) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
    """Return the chunks of a part with the windows that they use, renumbered from 0."""
    used_windows = sorted({chunk.window for chunk in chunks if chunk.window >= 0})
    indexes = {window: index for index, window in enumerate(used_windows)}
    renumbered = tuple(replace(chunk, window=indexes[chunk.window]) if chunk.window >= 0 else chunk for chunk in chunks)
    return renumbered, tuple(windows[window] for window in used_windows)
