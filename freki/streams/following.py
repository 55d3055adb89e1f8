"""Reads what workers heed besides their own topic: judgements of users, and receipts of documents that are gone."""

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence

import structlog

from freki.schemas import IndexOutcome, Judgement, OutcomeStatus, TenantId, Timestamp
from freki.schemas.avro import UndecodableError
from freki.streams.deliver import Prepare
from freki.streams.messages import Outgoing, Stored
from freki.streams.outbox import Outbox
from freki.streams.retrieval.epochs import Epochs
from freki.streams.retrieval.judged import Judgements, key_parts, keyed

_log = structlog.get_logger(__name__)


async def follow_judgements(  # noqa: PLR0913 - each is one thing from outside
    records: AsyncIterable[Stored],
    judgements: Judgements,
    *,
    decode: Callable[[bytes], Judgement],
    now: Callable[[], Timestamp],
    epochs: Epochs | None = None,
    prepare: Prepare | None = None,
) -> None:
    """Take every record of a topic, from its beginning; what is remembered of answers ends with each.

    A record that cannot be read moves nothing and stays on the topic: the log names it.
    """
    tenants = judgements.read_anew()
    if epochs is not None:
        for each in tenants:
            epochs.changed(each)
    async for stored in records:
        if prepare is not None:
            await prepare([stored.value])
        try:
            key = stored.key or b""
            tenant, *_ = key_parts(key)
            judgement = None if stored.value is None else keyed(key, decode(stored.value))
        except ValueError as error:
            _log.warning(
                "a judgement is left out",
                topic=stored.topic,
                partition=stored.partition,
                offset=stored.offset,
                error=str(error),
            )
            continue
        judgements.take(key, judgement, now=now())
        if epochs is not None:
            epochs.changed(TenantId(tenant))


async def erase_deleted(
    records: AsyncIterable[Stored],
    judgements: Judgements,
    *,
    decode: Callable[[bytes], IndexOutcome],
    erase: Callable[[Sequence[bytes]], Awaitable[None]],
    prepare: Prepare | None = None,
) -> None:
    """Erase from the topic what was said of documents that are deleted; from there it is erased here too."""
    async for stored in records:
        if stored.value is None:
            continue
        if prepare is not None:
            await prepare([stored.value])
        try:
            outcome = decode(stored.value)
        except UndecodableError:
            continue
        if outcome.status is OutcomeStatus.DELETED:
            await erase(judgements.of_document(outcome.tenant, outcome.document_id))


async def erase_judgements(outbox: Outbox, topic: str, keys: Sequence[bytes]) -> None:
    """Send tombstones, which erase from every worker at once, and from the topic when it is compacted."""
    await outbox.send(*(Outgoing(topic=topic, key=key, value=None) for key in keys))
