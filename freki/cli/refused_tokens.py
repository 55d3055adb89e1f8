"""The audit log of servers: tokens that they refuse themselves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from freki.infra.api.callers import OnRefused
from freki.infra.settings import Settings
from freki.operators.audit_chain import Event
from freki.schemas import AuditKind
from freki.schemas.identity import RefusalReason
from freki.streams.audit.log import AuditUnwritable
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_outbox


@asynccontextmanager
async def recording(settings: Settings, program: str) -> AsyncIterator[OnRefused | None]:
    """Open the audit log for tokens that are refused here, before a worker sees them; None if there is none."""
    if not settings.audit.enabled:
        # Then nothing is connected: the server may start before the broker.
        yield None
        return
    # Whoever is refused waits for it.
    limit_s = settings.kafka.delivery_timeout_s
    async with open_outbox(settings, limit_s=limit_s) as (outbox, _), open_audit(settings, outbox) as audit:

        async def record(reason: RefusalReason, address: str) -> None:
            event = Event(kind=AuditKind.REFUSED, subject=f"{program}, {address}", reason=reason)
            # Refused all the same where it cannot be written, which the log of the process says.
            with suppress(AuditUnwritable):
                if audit is not None:
                    await audit.record(event)

        yield None if audit is None else record
