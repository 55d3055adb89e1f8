"""Second stage: each chunk gets the words that situate it in its document."""

from collections.abc import Callable, Sequence

from freki.operators.situate import situate
from freki.schemas import ChunkBatch, ContextualChunk, ContextualChunkBatch
from freki.streams.deliver import Handle
from freki.streams.messages import Outgoing, Received
from freki.streams.outbox import Outbox


def contextualising(
    *, encode: Callable[[ContextualChunkBatch], bytes], outbox: Outbox, sink: str
) -> Handle[ChunkBatch]:
    """Give each chunk its document's name and headings as context."""

    async def handle(batch: Sequence[Received[ChunkBatch]]) -> None:
        await outbox.send(
            *(
                Outgoing(
                    topic=sink, key=received.key, value=encode(contextualised(received.value)), trace=received.trace
                )
                for received in batch
            )
        )

    return handle


def contextualised(batch: ChunkBatch) -> ContextualChunkBatch:
    """Situate the chunks of a batch."""
    return ContextualChunkBatch(
        revision=batch.revision,
        part=batch.part,
        parts=batch.parts,
        chunks=tuple(
            ContextualChunk(chunk=chunk, context=situate(batch.revision.name, chunk)) for chunk in batch.chunks
        ),
    )
