"""Embed stage: embed chunks, make them searchable, and send receipts."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from opentelemetry.context import Context
from opentelemetry.trace import get_current_span

from freki.operators.errors import InvalidChange
from freki.operators.identify import record_key
from freki.schemas import ContextualChunkBatch, IndexOutcome
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.lanes import Lane
from freki.streams.deliver.outbox import Sink
from freki.streams.ingest.index import Indexer, ReceivedPart
from freki.streams.messages import Received, edition_in
from freki.streams.observe import attributes
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import Attributes, describe, of_document


def embed_handler(
    indexer: Indexer, receipts: Sink[IndexOutcome], *, lane: Lane = Lane.REGULAR, meters: Meters
) -> Handle[ContextualChunkBatch]:
    """Return a handler that indexes batches of a lane and sends each receipt as soon as its change is visible."""

    async def handle(batch: Sequence[Received[ContextualChunkBatch]]) -> None:
        # The same change may be in a batch twice, and has two receipts then.
        traces = defaultdict[tuple[bytes, int], list[Context]](list)
        for received in batch:
            _check_part(received.value)
            revision = received.value.revision
            traces[received.key, revision.version].append(received.trace)
            describe(get_current_span(received.trace), partial(of_document, revision))
        parts = [ReceivedPart(received.value, received.partition, edition_in(received.headers)) for received in batch]
        requested = {
            (received.key, received.value.revision.version) for received in batch if edition_in(received.headers)
        }
        async with aclosing(indexer.index(parts, lane=lane)) as indexed:
            async for outcomes in indexed:
                records = []
                for outcome in outcomes:
                    key = record_key(outcome.tenant, outcome.document_id)
                    own = traces[key, outcome.version]
                    trace = own.pop(0) if len(own) > 1 else own[0]
                    describe(get_current_span(trace), partial(_described, outcome))
                    records.append(receipts.record(outcome, key=key, trace=trace))
                await receipts.send(*records)
                for outcome, record in zip(outcomes, records, strict=True):
                    # Reindexed: it was searchable all the time, so its age says nothing of freshness.
                    meters.count_receipt(outcome, is_fresh=(record.key, outcome.version) not in requested)

    return handle


def _check_part(batch: ContextualChunkBatch) -> None:
    """Raise InvalidChange for an impossible part number: its revision would stay incomplete, without a receipt."""
    if not 0 <= batch.part < batch.parts:
        raise InvalidChange(f"part: {batch.part} is out of range; {batch.parts} parts are numbered from 0")


def _described(outcome: IndexOutcome) -> Attributes:
    return {
        **of_document(outcome),
        attributes.FREKI_STATUS: outcome.status,
        attributes.FREKI_CHUNKS: outcome.chunks,
        attributes.FREKI_CHUNKS_EMBEDDED: outcome.embedded,
    }
