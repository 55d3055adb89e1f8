"""Retention by the rules of the settings."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from freki.infra.settings import RetentionRule as RuleSettings
from freki.infra.settings import Settings
from freki.infra.signing import SigningKey
from freki.operators.audit_chain import Event
from freki.operators.retain import RetentionAction, RetentionClock, RetentionRule
from freki.schemas import AuditedDocument, AuditKind, ErasureReport, PlannedErasure, TenantId
from freki.schemas.avro import Codec
from freki.schemas.errors import Misconfigured
from freki.streams.audit.log import AuditLog
from freki.streams.deliver.outbox import Sink
from freki.streams.privacy.erasure import fits_record
from freki.streams.privacy.requests import report_key
from freki.streams.privacy.retention import Retention
from freki.streams.topics import DAY_MS
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_index, open_outbox, open_registry
from freki.streams.wire.erasing.deletions import PublishedDeletions
from freki.streams.wire.erasing.holds import open_holds
from freki.streams.wire.erasing.open import erasure_of
from freki.streams.wire.erasing.places import Places
from freki.streams.wire.erasing.reports import TopicReports
from freki.streams.wire.from_settings import topics_of, wall_clock


def rules_of(settings: Settings) -> list[RetentionRule]:
    """Return the rules of retention."""
    return [_rule(each) for each in settings.retention.rules]


@asynccontextmanager
async def open_retention(settings: Settings, *, by: str) -> AsyncIterator[Retention]:
    """Open retention for a command; by: who runs it. Raises Misconfigured where a rule erases and no key signs."""
    patience_s = settings.erasure.patience_s
    async with AsyncExitStack() as opened:
        registry = await opened.enter_async_context(open_registry(settings))
        index = await opened.enter_async_context(open_index(settings))
        outbox, _ = await opened.enter_async_context(open_outbox(settings))
        audit = await opened.enter_async_context(open_audit(settings, outbox))
        places = Places(settings, index=index, registry=registry, outbox=outbox, patience_s=patience_s)
        reports = Sink(outbox, topics_of(settings).erasure_reports.name, Codec(ErasureReport, registry=registry).encode)
        yield retention_of(settings, places, reports, audit=audit, by=by)


def retention_of(
    settings: Settings,
    places: Places,
    reports: Sink[ErasureReport],
    *,
    audit: AuditLog | None,
    by: str,
) -> Retention:
    """Return retention by the rules of the settings."""
    holds, signer = open_holds(settings), signer_of(settings)
    deletions = PublishedDeletions(settings, places.index, patience_s=settings.erasure.patience_s)
    erase = None if signer is None else partial(erasure_of(places, deletions, holds, signer, audit=audit), by)

    book = TopicReports(settings)

    async def keep(report: ErasureReport) -> None:
        await reports.send(reports.record(report, key=report_key(report.tenant, report.request_id)))

    def fits(begun: ErasureReport) -> bool:
        return fits_record(begun, size=len(reports.encode(begun)), most=settings.kafka.max_message_bytes)

    return Retention(
        places.index,
        places,
        rules_of(settings),
        holds,
        deletions,
        erasure=erase,
        record=partial(_record, audit, by),
        keep=keep,
        fits=fits,
        begun=book.begun,
        last=book.of,
        now=wall_clock,
    )


def signer_of(settings: Settings) -> SigningKey | None:
    """Return what signs reports, also where no rule erases: erasures that broke off go on after their rule has gone.

    Raises Misconfigured where a rule erases and there is none.
    """
    key_file = settings.erasure.key_file or settings.audit.key_file
    if key_file is None and any(rule.action == "erase" for rule in settings.retention.rules):
        raise Misconfigured(
            "a rule of FREKI_RETENTION__RULES erases, and no key signs its reports: make one with "
            "`freki audit keys make FILE` and set FREKI_ERASURE__KEY_FILE=FILE"
        )
    return None if key_file is None else SigningKey.read(key_file)


async def _record(
    audit: AuditLog | None, by: str, tenant: TenantId, rule: str, documents: Sequence[PlannedErasure]
) -> None:
    if audit is not None:
        named = tuple(AuditedDocument(document_id=each.document_id, version=each.version) for each in documents)
        await audit.record(Event(kind=AuditKind.RETAINED, tenant=tenant, asker=by, subject=rule, documents=named))


def _rule(settings: RuleSettings) -> RetentionRule:
    return RetentionRule(
        name=settings.name,
        after_ms=max(1, round(settings.after_days * DAY_MS)),
        since=RetentionClock(settings.since.upper()),
        action=RetentionAction(settings.action.upper()),
        tenant=None if settings.tenant is None else TenantId(settings.tenant),
        prefix=settings.prefix,
        source=settings.source,
        media_type=settings.media_type,
        attributes=settings.attributes,
    )
