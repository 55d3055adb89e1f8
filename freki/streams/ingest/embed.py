"""Third stage: chunks get their vectors and become searchable, and the producer gets a receipt."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial

from opentelemetry.trace import get_current_span

from freki.operators.errors import InvalidChange
from freki.schemas import ContextualChunkBatch, DocumentId, IndexOutcome, TenantId
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.lanes import Lane
from freki.streams.deliver.messages import Outgoing, Received
from freki.streams.deliver.outbox import Outbox
from freki.streams.ingest.index import Indexer, Part
from freki.streams.observe import attributes
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import Attributes, describe, of_document


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
        for received in batch:
            _check_part(received.value)
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


def _check_part(batch: ContextualChunkBatch) -> None:
    """Raise InvalidChange for a part that no revision has: it would wait for the others for good, without a receipt."""
    if not 0 <= batch.part < batch.parts:
        raise InvalidChange(f"part: {batch.part} of {batch.parts} parts does not exist; they are numbered from 0")


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
