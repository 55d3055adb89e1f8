"""Open erasures."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from opentelemetry.trace import NoOpTracer

from freki.infra.kafka import KafkaProducer
from freki.infra.settings import Settings
from freki.infra.signing import SigningKey
from freki.operators.audit_chain import Event
from freki.schemas import AuditedDocument, AuditKind, PlannedErasure, TenantId
from freki.streams.audit.log import AuditLog
from freki.streams.deliver.outbox import Outbox
from freki.streams.ports.erasure import Deletions, HoldBook
from freki.streams.privacy.erasure import Erasure
from freki.streams.privacy.rectification import Rectification
from freki.streams.privacy.requests import ErasureFor
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_index, open_outbox, open_registry
from freki.streams.wire.erasing.deletions import PublishedDeletions
from freki.streams.wire.erasing.holds import open_holds
from freki.streams.wire.erasing.places import Places
from freki.streams.wire.from_settings import wall_clock

RECORDED_TOGETHER = 1_000
"""Documents of one entry of the audit log, which is a record of limited size."""


@asynccontextmanager
async def open_places(settings: Settings, *, patience_s: float) -> AsyncIterator[Places]:
    """Open all places of content to search them; nothing can be removed, for which a producer would need rights.

    patience_s: longest wait for workers to have read work topics.
    """
    closed = Outbox(KafkaProducer(settings.kafka), NoOpTracer())
    async with _places(settings, closed, patience_s=patience_s) as places:
        yield places


@asynccontextmanager
async def _places(settings: Settings, outbox: Outbox, *, patience_s: float) -> AsyncIterator[Places]:
    async with open_registry(settings) as registry, open_index(settings) as index:
        yield Places(settings, index=index, registry=registry, outbox=outbox, patience_s=patience_s)


@asynccontextmanager
async def open_erasure(settings: Settings, signer: SigningKey, *, by: str, patience_s: float) -> AsyncIterator[Erasure]:
    """Open an erasure; by: who asks, for the audit log; patience_s: longest wait for the next receipt."""
    async with (
        open_outbox(settings) as (outbox, _),
        _places(settings, outbox, patience_s=patience_s) as places,
        open_audit(settings, outbox) as audit,
    ):
        deletions = PublishedDeletions(settings, places.index, patience_s=patience_s)
        yield erasure_of(places, deletions, open_holds(settings), signer, audit=audit)(by, "")


@asynccontextmanager
async def open_rectification(
    settings: Settings, signer: SigningKey, *, by: str, patience_s: float
) -> AsyncIterator[Rectification]:
    """Open a rectification; by: who asks; patience_s: longest wait for workers to have read work topics."""
    async with (
        open_outbox(settings) as (outbox, _),
        _places(settings, outbox, patience_s=patience_s) as places,
        open_audit(settings, outbox) as audit,
    ):
        yield Rectification(
            places,
            places.index,
            open_holds(settings),
            sign=signer.sign,
            record=partial(record_erasure, audit, by=by, subject="", kind=AuditKind.RECTIFIED),
            now=wall_clock,
        )


def erasure_of(
    places: Places,
    deletions: Deletions,
    holds: HoldBook,
    signer: SigningKey,
    *,
    audit: AuditLog | None,
) -> ErasureFor:
    """Return what makes an erasure for who asks and the id of the request.

    holds: those by which the caller decides, too; other ones may be older.
    """

    def erasure(by: str, subject: str) -> Erasure:
        return Erasure(
            places,
            places.index,
            deletions,
            holds,
            sign=signer.sign,
            record=partial(record_erasure, audit, by=by, subject=subject),
            now=wall_clock,
        )

    return erasure


async def record_erasure(
    audit: AuditLog | None,
    tenant: TenantId,
    documents: Sequence[PlannedErasure],
    *,
    by: str,
    subject: str,
    kind: AuditKind = AuditKind.ERASED,
) -> None:
    """Write to the audit log, before anything is removed, who erases what."""
    if audit is None:
        return
    for at in range(0, len(documents), RECORDED_TOGETHER):
        named = documents[at : at + RECORDED_TOGETHER]
        await audit.record(
            Event(
                kind=kind,
                tenant=tenant,
                asker=by,
                subject=subject,
                documents=tuple(AuditedDocument(document_id=each.document_id, version=each.version) for each in named),
            )
        )
