"""Third stage: chunks get their vectors and become searchable, and the producer gets a receipt."""

from collections.abc import Callable, Sequence

from freki.schemas import ContextualChunkBatch, DocumentId, IndexOutcome, TenantId
from freki.streams.deliver import Handle
from freki.streams.indexing import Indexer, Part
from freki.streams.messages import Outgoing, Received
from freki.streams.outbox import Outbox


def embedding(
    indexer: Indexer, *, encode: Callable[[IndexOutcome], bytes], outbox: Outbox, sink: str
) -> Handle[ContextualChunkBatch]:
    """Index batches; each receipt leaves as soon as its change is visible."""

    async def handle(batch: Sequence[Received[ContextualChunkBatch]]) -> None:
        traces = {(received.key, received.value.revision.version): received.trace for received in batch}
        async for outcomes in indexer.index([Part(received.value, received.partition) for received in batch]):
            await outbox.send(
                *(
                    Outgoing(
                        topic=sink,
                        key=(key := record_key(outcome.tenant, outcome.document_id)),
                        value=encode(outcome),
                        trace=traces.get((key, outcome.version)),
                    )
                    for outcome in outcomes
                )
            )

    return handle


def record_key(tenant: TenantId, document_id: DocumentId) -> bytes:
    """Give the key that orders a document's records."""
    return f"{tenant}/{document_id}".encode()
