"""Second stage: each chunk gets the words that say where it stands in its document."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from freki.operators.breadcrumb import breadcrumb, context_key, joined
from freki.operators.define import explain
from freki.schemas import ChunkBatch, ContextualChunk, ContextualChunkBatch
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.messages import Outgoing, Received
from freki.streams.deliver.outbox import Outbox


class Situate(Protocol):
    """Situates chunks better than name and headings do."""

    def __call__(
        self, batch: Sequence[Received[ChunkBatch]]
    ) -> AsyncIterator[tuple[Received[ChunkBatch], ContextualChunkBatch]]:
        """Give each part with its contexts as soon as they are there, in order for each document."""


def contextualising(
    *, encode: Callable[[ContextualChunkBatch], bytes], outbox: Outbox, sink: str, situate_all: Situate | None = None
) -> Handle[ChunkBatch]:
    """Give each chunk its context, and send each part as soon as it is ready; None: nothing but what is in the part."""

    async def handle(batch: Sequence[Received[ChunkBatch]]) -> None:
        if situate_all is None:
            await outbox.send(*(outgoing(received, contextualised(received.value)) for received in batch))
            return
        async for received, part in situate_all(batch):
            await outbox.send(outgoing(received, part))

    def outgoing(received: Received[ChunkBatch], part: ContextualChunkBatch) -> Outgoing:
        return Outgoing(topic=sink, key=received.key, value=encode(part), trace=received.trace)

    return handle


def contextualised(batch: ChunkBatch) -> ContextualChunkBatch:
    """Situate the chunks of a part by document name, headings, and the short forms that the document explains."""
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
