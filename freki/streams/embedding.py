"""Third stage: chunks get their vectors and become searchable, and the producer gets a receipt."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial

from opentelemetry.trace import get_current_span

from freki.schemas import ContextualChunkBatch, DocumentId, IndexOutcome, TenantId
from freki.streams import attributes
from freki.streams.deliver import Handle
from freki.streams.indexing import Indexer, Part
from freki.streams.lanes import Lane
from freki.streams.messages import Outgoing, Received
from freki.streams.meters import Meters
from freki.streams.outbox import Outbox
from freki.streams.tracing import Attributes, describe, of_document


def embedding(  # noqa: PLR0913 - each is one thing from outside
    indexer: Indexer,
    *,
    lane: Lane = Lane.REGULAR,
    encode: Callable[[IndexOutcome], bytes],
    outbox: Outbox,
    sink: str,
    meters: Meters,
) -> Handle[ContextualChunkBatch]:
    """Index batches of a lane; each receipt leaves as soon as its change is visible."""

    async def handle(batch: Sequence[Received[ContextualChunkBatch]]) -> None:
        traces = {(received.key, received.value.revision.version): received.trace for received in batch}
        parts = [Part(received.value, received.partition) for received in batch]
        async with aclosing(indexer.index(parts, lane=lane)) as indexed:
            async for outcomes in indexed:
                receipts = []
                for outcome in outcomes:
                    key = record_key(outcome.tenant, outcome.document_id)
                    trace = traces[key, outcome.version]
                    describe(get_current_span(trace), partial(_described, outcome))
                    receipts.append(Outgoing(topic=sink, key=key, value=encode(outcome), trace=trace))
                await outbox.send(*receipts)
                for outcome in outcomes:
                    meters.became(outcome)

    return handle


def _described(outcome: IndexOutcome) -> Attributes:
    return {
        **of_document(outcome),
        attributes.FREKI_STATUS: outcome.status,
        attributes.FREKI_CHUNKS: outcome.chunks,
        attributes.FREKI_CHUNKS_EMBEDDED: outcome.embedded,
    }


def record_key(tenant: TenantId, document_id: DocumentId) -> bytes:
    """Give the key that orders a document's records."""
    return f"{tenant}/{document_id}".encode()
