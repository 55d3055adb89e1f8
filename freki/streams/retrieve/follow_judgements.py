"""Follow the topic of judgements, and receipts of deleted documents."""

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import structlog

from freki.client.exchange import decoded
from freki.operators.errors import InvalidQuery
from freki.operators.identify import root_id
from freki.operators.validate_query import validate_judgement
from freki.schemas import DocumentId, IndexOutcome, Judgement, OutcomeStatus, RootId, TenantId, Timestamp
from freki.schemas.names import is_known
from freki.streams.batches import batched
from freki.streams.deliver.key_order import KeyOrder
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Outgoing, Stored, place_of
from freki.streams.ports import Roots
from freki.streams.retrieve.cache.epochs import Epochs
from freki.streams.retrieve.steps.judged import Judgements, key_parts, keyed

LOOKUP_BATCH = 400
"""Judgements whose documents are looked up in one call."""

_log = structlog.get_logger(__name__)


async def follow_judgements(
    records: AsyncIterable[Stored],
    judgements: Judgements,
    *,
    decode: Callable[[bytes], Judgement],
    now: Callable[[], Timestamp],
    epochs: Epochs | None = None,
) -> None:
    """Take every record of the topic from its beginning; each ends the epoch of its tenant.

    A record that cannot be decoded or breaks a rule has no effect and stays on the topic; it is logged.
    """
    tenants, order = judgements.read_anew(), KeyOrder()
    if epochs is not None:
        for each in tenants:
            epochs.changed(each)
    async for stored in records:
        if order.is_outdated(stored):
            continue
        try:
            key = stored.key or b""
            tenant, *_ = key_parts(key)
            judgement = None if stored.value is None else _made_before(stored, keyed(key, decode(stored.value)))
            if judgement is not None:
                validate_judgement(judgement)
        except (ValueError, InvalidQuery) as error:
            _log.warning("a judgement is left out", **place_of(stored), error=str(error))
            continue
        judgements.take(key, judgement, now=now())
        if epochs is not None:
            epochs.changed(TenantId(tenant))


def _made_before(stored: Stored, judgement: Judgement) -> Judgement:
    """Return a judgement that is no younger than its record: one of the future would never wear out."""
    recorded_at = Timestamp(stored.timestamp_ms)
    return replace(judgement, at=min(judgement.at, recorded_at)) if is_known(recorded_at) else judgement


async def erase_deleted(
    records: AsyncIterable[Stored],
    judgements: Judgements,
    *,
    decode: Callable[[bytes], IndexOutcome],
    erase: Callable[[Sequence[bytes]], Awaitable[None]],
) -> None:
    """Erase the judgements on deleted documents from the topic, and so from every worker."""
    async for outcome in decoded(records, decode):
        if outcome.status is OutcomeStatus.DELETED:
            await erase(judgements.of_document(outcome.tenant, outcome.document_id))


async def erase_what_is_left(records: AsyncIterable[Stored], roots: Roots, outbox: Outbox) -> int:
    """Erase the judgements on deleted documents whose receipts were missed; return their number.

    records: all records of the topic. Each null value goes to the partition of its judgement: a key had another one
    before partitions were added. Judgements on documents unknown to the index stay: the documents may still arrive.
    """
    left: set[_Place] = set()
    async for some in batched(records, LOOKUP_BATCH):
        batch = {_Place(each.topic, each.partition, each.key or b""): each.value is not None for each in some}
        left.difference_update(batch)
        documents = {
            place: document for place, is_there in batch.items() if is_there and (document := _judged(place.key))
        }
        found = await roots.roots(sorted(set(documents.values()))) if documents else {}
        left.update(place for place, document in documents.items() if document in found and found[document].deleted)
    places = sorted(left)
    for at in range(0, len(places), LOOKUP_BATCH):
        await outbox.send(*(place.null for place in places[at : at + LOOKUP_BATCH]))
    return len({place.key for place in places})


class _Place(NamedTuple):
    """Where a judgement is."""

    topic: str
    partition: int
    key: bytes

    @property
    def null(self) -> Outgoing:
        return Outgoing(topic=self.topic, key=self.key, value=None, partition=self.partition)


def _judged(key: bytes) -> RootId | None:
    """Return the document of the key of a judgement, or None for another key."""
    try:
        tenant, _, _, document = key_parts(key)
        return root_id(TenantId(tenant), DocumentId(document))
    except ValueError:
        return None


async def erase_judgements(outbox: Outbox, topic: str, keys: Sequence[bytes]) -> None:
    """Send tombstones, which erase judgements from every worker at once and from the topic at its compaction."""
    await outbox.send(*(Outgoing(topic=topic, key=key, value=None) for key in keys))
