"""Contextualise stage: add to each chunk its position in the document as context."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from freki.operators.breadcrumb import breadcrumb, context_key, joined
from freki.operators.define import explain
from freki.schemas import ChunkBatch, ContextualChunk, ContextualChunkBatch
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.outbox import Sink
from freki.streams.messages import Outgoing, Received


class WriteContexts(Protocol):
    """Writer of contexts beyond name and headings."""

    def __call__(
        self, batch: Sequence[Received[ChunkBatch]]
    ) -> AsyncIterator[tuple[Received[ChunkBatch], ContextualChunkBatch]]:
        """Yield each part with its contexts as soon as they are ready, in order per document."""


def contextualise_handler(
    sink: Sink[ContextualChunkBatch], *, write_contexts: WriteContexts | None = None
) -> Handle[ChunkBatch]:
    """Return a handler that adds a context to each chunk and sends each part as soon as it is ready.

    write_contexts: None: derive contexts only from the part itself.
    """

    async def handle(batch: Sequence[Received[ChunkBatch]]) -> None:
        if write_contexts is None:
            await sink.send(*(outgoing(received, contextualise(received.value)) for received in batch))
            return
        async for received, part in write_contexts(batch):
            await sink.send(outgoing(received, part))

    def outgoing(received: Received[ChunkBatch], part: ContextualChunkBatch) -> Outgoing:
        return sink.record(part, key=received.key, trace=received.trace)

    return handle


def contextualise(batch: ChunkBatch) -> ContextualChunkBatch:
    """Add document name, headings and explained abbreviations to the chunks of a part."""
    chunks = []
    for chunk in batch.chunks:
        explained = (
            explain(batch.definitions, "\n".join((*chunk.heading_path, chunk.text))) if batch.definitions else ""
        )
        context = joined(breadcrumb(batch.revision.name, chunk), explained, "")
        chunks.append(ContextualChunk(chunk=chunk, context=context, context_key=context_key(explained)))
    return ContextualChunkBatch(
        revision=batch.revision, part=batch.part, parts=batch.parts, chunks=tuple(chunks), windows=batch.windows
    )
