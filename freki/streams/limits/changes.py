"""Limits of changes, at the chunk stage: what a tenant may not store, publish or embed is refused."""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import structlog

from freki.operators.errors import OverLimit
from freki.operators.identify import root_id
from freki.operators.limit import ExceededLimit, exceeded
from freki.schemas import DocumentId, RootId, TenantId, Timestamp
from freki.schemas.errors import Unavailable
from freki.schemas.index import Root
from freki.schemas.limits import Admission, LimitKind, TenantUse
from freki.schemas.names import record
from freki.streams.limits.tenant import TenantLedger
from freki.streams.limits.usage import UsageLedger
from freki.streams.observe.meters import Meters

RECOUNT_S = 600.0
"""Interval in which the stock of tenants is counted again, in seconds."""
_MOST_COUNTING = 0.05
"""Share of the time that counting may take."""
_REMEMBERED = 10_000
"""Refused changes that are remembered, to count each once."""

_log = structlog.get_logger(__name__)


class CountedStore(Protocol):
    """The store, as far as it tells what a tenant has."""

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Return the standing root of each document."""

    def all_roots(
        self, after: RootId | None = None, *, tenant: TenantId | None = None, prefix: str = ""
    ) -> AsyncIterator[Root]:
        """Yield the standing root of every document, in ascending order of root ids."""


@record
class Proposal:
    """A change, as far as it counts."""

    tenant: TenantId
    document_id: DocumentId
    version: int
    at: Timestamp
    """When the broker stored it."""
    size: int | None
    """Characters of the document after it; None: it is deleted."""
    published_bytes: int = 0
    tokens: int = 0
    content_hash: str = ""
    forced: bool = False
    """Reindexed on request of an operator: counted, and never refused."""


class ChangeLimits:
    """Lets changes through, or refuses them.

    Limits of one tenant never make changes of another wait, but for the first count of its documents.
    """

    def __init__(
        self,
        ledger: UsageLedger,
        store: CountedStore,
        *,
        send: Callable[[Admission], Awaitable[None]],
        meters: Meters | None = None,
    ) -> None:
        """Create the limits; send: stores on the topic `usage` what is let through."""
        self._ledger = ledger
        self._store = store
        self._send = send
        self._meters = meters or Meters()
        self._turns: defaultdict[TenantId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._refused: OrderedDict[tuple[TenantId, DocumentId, int, Timestamp], None] = OrderedDict()

    async def check(self, proposal: Proposal) -> None:
        """Raise OverLimit if the change is refused whatever its text is. Raises Unavailable.

        proposal: with the least size and tokens that it may have.
        """
        if self._ledger.limits_of(proposal.tenant).of_changes:
            async with self._turns[proposal.tenant]:
                if not self._ledger.of(proposal.tenant).has(proposal.document_id, proposal.version):
                    await self._judged(proposal)

    async def admit(self, proposal: Proposal) -> None:
        """Count a change, in all processes; raise OverLimit if it is refused. Raises Unavailable."""
        limits = self._ledger.limits_of(proposal.tenant)
        if not limits.of_changes or (proposal.size is None and not limits.of_stock):
            return
        ledger = self._ledger.of(proposal.tenant)
        async with self._turns[proposal.tenant]:
            if ledger.has(proposal.document_id, proposal.version):
                return
            before, tokens = await self._judged(proposal)
            admission = Admission(
                writer=self._ledger.writer,
                tenant=proposal.tenant,
                document_id=proposal.document_id,
                version=proposal.version,
                at=proposal.at,
                size=proposal.size,
                before=before,
                published_bytes=proposal.published_bytes,
                tokens=tokens,
            )
            # First sent: what is not known to the others is not let through.
            await self._send(admission)
            ledger.admit(admission)

    async def _judged(self, proposal: Proposal) -> tuple[int | None, int]:
        """Return the characters that the store has of the document, and the tokens that the change may embed."""
        limits, ledger = self._ledger.limits_of(proposal.tenant), self._ledger.of(proposal.tenant)
        if limits.of_stock and not ledger.is_counted:
            await self._count(proposal.tenant, ledger)
        key, which = root_id(proposal.tenant, proposal.document_id), (proposal.document_id, proposal.version)
        root = (await self._store.roots([key])).get(key)
        live = None if root is None or root.deleted else root
        before, most = ledger.size_under_way(proposal.document_id) or (None, None)
        if most is None:
            before = most = None if live is None else live.characters
        same = live is not None and live.content_hash == proposal.content_hash
        tokens = 0 if same else proposal.tokens
        more = TenantUse(
            documents=int(most is None and proposal.size is not None),
            characters=(proposal.size or 0) - (most or 0),
            published_bytes=0 if ledger.has_published(*which, at=proposal.at) else proposal.published_bytes,
            tokens=tokens,
        )
        used = ledger.use(at=proposal.at, now=self._ledger.now())
        excess = exceeded(limits, used, more)
        if excess is not None and not proposal.forced and proposal.size is not None:
            self._count_refusal(proposal, excess.kind)
            raise OverLimit(f"limit: {limit_message(proposal.tenant, excess)}")
        return before, tokens

    def _count_refusal(self, proposal: Proposal, kind: LimitKind) -> None:
        """Count a refused change once: it comes again with the halves of its batch."""
        which = (proposal.tenant, proposal.document_id, proposal.version, proposal.at)
        if which not in self._refused:
            self._refused[which] = None
            self._meters.count_over_limit(kind)
        if len(self._refused) > _REMEMBERED:
            self._refused.popitem(last=False)

    async def recount(self) -> None:
        """Count the stock of tenants again from time to time: what was lost with a process is mended by it."""
        wait_s = RECOUNT_S
        while True:
            await asyncio.sleep(wait_s)
            began = time.monotonic()
            for tenant in self._ledger.tenants:
                ledger = self._ledger.of(tenant)
                if ledger.is_counted:
                    try:
                        await self._count(tenant, ledger)
                    except Unavailable as error:
                        _log.warning("the documents of a tenant are counted later", tenant=tenant, error=str(error))
            wait_s = max(RECOUNT_S, (time.monotonic() - began) / _MOST_COUNTING)

    async def _count(self, tenant: TenantId, ledger: TenantLedger) -> None:
        await count_stock(self._store, tenant, ledger)


async def count_stock(store: CountedStore, tenant: TenantId, ledger: TenantLedger) -> None:
    """Count the documents of a tenant in the store. Raises Unavailable."""
    ledger.begin_count()
    async for root in store.all_roots(tenant=tenant):
        ledger.count(root)
    ledger.end_count()


def limit_message(tenant: str, excess: ExceededLimit) -> str:
    """Return what the producer is told."""
    name = f"FREKI_LIMITS__{excess.kind.upper()}"
    of = f"tenant {tenant} has used {excess.used:,} of {excess.most:,}"
    match excess.kind:
        case LimitKind.DOCUMENTS:
            return f"{of} documents: delete some, or have {name} raised"
        case LimitKind.CHARACTERS:
            return f"{of} characters, and this document adds {excess.more:,}: delete some, or have {name} raised"
        case LimitKind.PUBLISHED:
            return f"{of} bytes of this day, UTC, and this change has {excess.more:,}: see {name}"
        case LimitKind.TOKENS:
            return f"{of} tokens to embed of this day, UTC, and this change may need {excess.more:,}: see {name}"
        case LimitKind.QUERIES:
            return f"{of} queries of this minute: see {name}"
