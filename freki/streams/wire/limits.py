"""Limits of tenants, as the settings say."""

import secrets
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from freki.infra.kafka import Reader
from freki.infra.registry import RegistryClient
from freki.infra.settings import LimitSettings, Settings
from freki.schemas import IndexOutcome, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.limits import Admission, QueryCount, TenantLimits
from freki.streams.deliver.outbox import Outbox
from freki.streams.limits.changes import ChangeLimits
from freki.streams.limits.queries import QueryLimits
from freki.streams.limits.usage import UsageLedger, follow_receipts, follow_usage, written
from freki.streams.messages import Outgoing
from freki.streams.topics import USAGE_MS
from freki.streams.wire.background import follow
from freki.streams.wire.from_settings import topics_of, wall_clock

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts

_TENANTS = 10_000
"""Tenants whose limits are remembered."""


def limits_of_tenant(settings: LimitSettings, tenant: TenantId) -> TenantLimits:
    """Return the limits of a tenant."""
    return TenantLimits(**settings.of(tenant))


def new_ledger(settings: Settings, *, counts_changes: bool = True) -> UsageLedger:
    """Return a ledger of a new writer."""
    limits_of = lru_cache(maxsize=_TENANTS)(partial(limits_of_tenant, settings.limits))
    return UsageLedger(limits_of, writer=secrets.token_hex(8), now=wall_clock, counts_changes=counts_changes)


async def read_ledger(settings: Settings, ledger: UsageLedger, *, registry: RegistryClient | None = None) -> None:
    """Read what was let through up to now, and what became of changes where the ledger counts them."""
    decode = Codec(IndexOutcome, registry=registry).decode
    topics = topics_of(settings)
    async with Reader(settings.kafka, topics.usage.name, start="earliest") as reader:
        await follow_usage(reader.until_end(), ledger)
    if ledger.counts_changes:
        async with Reader(settings.kafka, topics.outcomes.name, start=_since(), registry=registry) as reader:
            await follow_receipts(reader.until_end(), ledger, decode=decode)


async def open_change_limits(parts: "Parts") -> ChangeLimits | None:
    """Read what changes count, and follow it; None if the settings limit no changes."""
    settings = parts.settings
    if not _any(settings.limits, lambda limits: limits.of_changes):
        return None
    ledger = new_ledger(settings)
    await read_ledger(settings, ledger, registry=parts.registry)
    _follow_usage(parts, ledger)
    topic = parts.topics.outcomes.name

    async def take(reader: Reader) -> None:
        ledger.opened(topic, reader.ends)
        await follow_receipts(reader, ledger, decode=parts.codec(IndexOutcome).decode)

    parts.background.spawn(follow(settings.kafka, topic, _since(), take, registry=parts.registry))
    limits = ChangeLimits(
        ledger,
        await parts.open_index(),
        send=partial(_send, parts.outbox, parts.topics.usage.name),
        meters=parts.meters,
    )
    parts.background.spawn(limits.recount())
    return limits


async def open_query_limits(parts: "Parts") -> QueryLimits | None:
    """Read what was asked, and follow it; None if the settings limit no queries."""
    settings = parts.settings
    if not _any(settings.limits, lambda limits: limits.queries_per_minute is not None):
        return None
    ledger = new_ledger(settings, counts_changes=False)
    await read_ledger(settings, ledger)
    _follow_usage(parts, ledger)
    return QueryLimits(ledger, send=partial(_send, parts.outbox, parts.topics.usage.name), meters=parts.meters)


def _follow_usage(parts: "Parts", ledger: UsageLedger) -> None:
    topic = parts.topics.usage.name

    async def take(reader: Reader) -> None:
        ledger.opened(topic, reader.ends)
        await follow_usage(reader, ledger)

    parts.background.spawn(follow(parts.settings.kafka, topic, "earliest", take))


async def _send(outbox: Outbox, topic: str, entry: Admission | QueryCount) -> None:
    await outbox.send(Outgoing(topic=topic, key=entry.tenant.encode(), value=written(entry)))


def _any(settings: LimitSettings, test: Callable[[TenantLimits], bool]) -> bool:
    named = [limits_of_tenant(settings, TenantId(tenant)) for tenant in ("", *settings.tenants)]
    return any(test(limits) for limits in named)


def _since() -> Timestamp:
    return Timestamp(wall_clock() - USAGE_MS)
