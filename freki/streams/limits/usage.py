"""What all processes let through, from the topic `usage`, and what became of it, from receipts."""

import json
from collections import defaultdict
from collections.abc import AsyncIterable, Callable, Collection, Mapping
from dataclasses import asdict

import structlog
from pydantic import TypeAdapter, ValidationError

from freki.schemas import IndexOutcome, TenantId, Timestamp
from freki.schemas.limits import Admission, QueryCount, TenantLimits
from freki.streams.deliver.read_offsets import ReadOffsets
from freki.streams.limits.tenant import TenantLedger
from freki.streams.messages import Stored, place_of

MINUTE_MS = 60_000
_KEPT_MINUTES = 60
"""How far from now minutes are remembered: clocks of broker and processes differ by less."""
_ADMISSION, _QUERIES = TypeAdapter(Admission), TypeAdapter(QueryCount)

_log = structlog.get_logger(__name__)

LimitsOf = Callable[[TenantId], TenantLimits]


class UsageLedger:
    """Use of all tenants that have limits."""

    def __init__(
        self, limits_of: LimitsOf, *, writer: str, now: Callable[[], Timestamp], counts_changes: bool = True
    ) -> None:
        """Create a ledger.

        writer: name of this process, which tells the ledger itself what it lets through. counts_changes: whether it is
        told receipts too; without them every change would be under way for ever.
        """
        self.limits_of = limits_of
        self.counts_changes = counts_changes
        self.writer = writer
        self.now = now
        self._tenants: dict[TenantId, TenantLedger] = {}
        self._queries: defaultdict[int, defaultdict[TenantId, int]] = defaultdict(lambda: defaultdict(int))
        self._read: defaultdict[str, ReadOffsets] = defaultdict(ReadOffsets)

    @property
    def tenants(self) -> Collection[TenantId]:
        """Tenants with limits of which something is known."""
        return sorted({*self._tenants, *(tenant for asked in self._queries.values() for tenant in asked)})

    def of(self, tenant: TenantId) -> TenantLedger:
        """Return the ledger of a tenant."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = TenantLedger(tenant)
        return found

    def opened(self, topic: str, ends: Mapping[int, int]) -> None:
        """Read a topic from its beginning if it is another one than before; ends: end offset of each partition."""
        self._read[topic].reset_if_replaced(ends)

    def is_new(self, stored: Stored) -> bool:
        """Return whether a record was not read before, and remember it."""
        return self._read[stored.topic].is_new(stored)

    def take(self, stored: Stored) -> None:
        """Take a record of the topic that another process wrote."""
        try:
            given = json.loads(stored.value or b"")
            if "queries" in given:
                count = _QUERIES.validate_python(given)
                if count.writer != self.writer:
                    self.add_queries(count.tenant, count.minute, count.queries)
                return
            admission = _ADMISSION.validate_python(given)
        except (ValueError, TypeError, ValidationError, RecursionError) as error:
            _log.warning("a record of usage is left out", **place_of(stored), error=type(error).__name__)
            return
        is_counted = self.counts_changes and self.limits_of(admission.tenant).of_changes
        if is_counted and admission.writer != self.writer:
            self.of(admission.tenant).admit(admission, reported_at=Timestamp(stored.timestamp_ms))

    def settle(self, outcome: IndexOutcome, *, at: Timestamp) -> None:
        """Take a receipt; at: when the broker stored it."""
        if self.limits_of(outcome.tenant).of_changes:
            ledger = self.of(outcome.tenant)
            ledger.settle(outcome, at=at)
            ledger.forget(self.now())

    def queries_in(self, tenant: TenantId, minute: int) -> int:
        """Return how many queries of a tenant were let through in a minute."""
        asked = self._queries.get(minute)
        return 0 if asked is None else asked.get(tenant, 0)

    def add_queries(self, tenant: TenantId, minute: int, queries: int) -> None:
        """Count queries; those of minutes that are far from this one and from now are forgotten.

        Not those before the latest minute: it may be that of a process whose clock is ahead.
        """
        if minute not in self._queries:
            near = (minute, self.now() // MINUTE_MS)
            for other in [each for each in self._queries if all(abs(each - at) > _KEPT_MINUTES for at in near)]:
                del self._queries[other]
        self._queries[minute][tenant] += queries


def written(entry: Admission | QueryCount) -> bytes:
    """Return the value of a record of the topic."""
    return json.dumps(asdict(entry), ensure_ascii=False).encode()


async def follow_usage(records: AsyncIterable[Stored], ledger: UsageLedger) -> None:
    """Take every record of the topic `usage`."""
    async for stored in records:
        if ledger.is_new(stored):
            ledger.take(stored)


async def follow_receipts(
    records: AsyncIterable[Stored],
    ledger: UsageLedger,
    *,
    decode: Callable[[bytes], IndexOutcome],
) -> None:
    """Take every receipt; what is none has been told by the stages that wrote it."""
    async for stored in records:
        if stored.value is None or not ledger.is_new(stored):
            continue
        try:
            outcome = decode(stored.value)
        except ValueError:
            continue
        ledger.settle(outcome, at=Timestamp(stored.timestamp_ms))
