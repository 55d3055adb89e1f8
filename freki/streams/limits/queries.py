"""Limits of queries, at the retrieve stage: the first ones of each minute are answered."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

import structlog

from freki.schemas import TenantId, Timestamp
from freki.schemas.limits import LimitKind, QueryCount
from freki.streams.limits.usage import MINUTE_MS, UsageLedger
from freki.streams.observe.meters import Meters

_log = structlog.get_logger(__name__)


class QueryLimits:
    """Lets queries through, or tells when to ask again.

    The clock is that of the broker. Each process tells the others what it lets through, and does not wait for that: in
    the time that takes, several together may let a few more through than the limit.
    """

    def __init__(
        self, ledger: UsageLedger, *, send: Callable[[QueryCount], Awaitable[None]], meters: Meters | None = None
    ) -> None:
        self._ledger = ledger
        self._send = send
        self._meters = meters or Meters()
        self._unsent: defaultdict[tuple[TenantId, int], int] = defaultdict(int)
        self._sending: set[asyncio.Task[None]] = set()

    def refusal(self, tenant: TenantId, asked_at: Timestamp) -> str | None:
        """Count a query; return why it is refused instead, or None. asked_at: when the broker stored it."""
        most = self._ledger.limits_of(tenant).queries_per_minute
        if most is None:
            return None
        minute = asked_at // MINUTE_MS
        if self._ledger.queries_in(tenant, minute) >= most:
            self._meters.count_over_limit(LimitKind.QUERIES)
            # The clock of the broker may be hours from this one; no minute has more than 60 seconds.
            left_s = min(60, max(1, -(-((minute + 1) * MINUTE_MS - self._ledger.now()) // 1000)))
            return f"the tenant has asked its {most} queries of this minute: ask again in {left_s} s"
        self._ledger.add_queries(tenant, minute, 1)
        self._unsent[tenant, minute] += 1
        return None

    def tell(self) -> None:
        """Tell the other processes what was let through since the last time, without waiting for it."""
        if self._unsent and not self._sending:
            task = asyncio.create_task(self._tell())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _tell(self) -> None:
        while self._unsent:
            (tenant, minute), queries = self._unsent.popitem()
            count = QueryCount(writer=self._ledger.writer, tenant=tenant, minute=minute, queries=queries)
            try:
                await self._send(count)
            except Exception as error:  # noqa: BLE001 - whatever it is, the queries are answered; it is told with the next
                _log.warning("the count of queries is sent to other workers later", tenant=tenant, error=str(error))
                if minute >= self._ledger.now() // MINUTE_MS - 1:
                    self._unsent[tenant, minute] += queries
                return
