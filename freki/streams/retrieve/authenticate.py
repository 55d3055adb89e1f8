"""Who asks: the one place that decides whether a query is answered, and in whose name."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Protocol, TypeVar

from freki.operators.check_claims import ClaimRules, check_claims
from freki.operators.narrow_query import narrow_query
from freki.schemas import ContextQuery, DocumentQuery, TenantId, Timestamp
from freki.schemas.identity import Identity, Refusal, RefusalReason
from freki.streams.messages import TOKEN_HEADER, Received, header
from freki.streams.observe.meters import Meters
from freki.streams.ports import TokenVerifier

STEP = "authenticate"

Q = TypeVar("Q", ContextQuery, DocumentQuery)


class Groups(Protocol):
    """Groups that are given besides those in tokens."""

    def of(self, identity: Identity) -> Collection[str]:
        """Return the further groups of who asks."""


class Replays(Protocol):
    """Memory of the tokens that came before."""

    async def check(self, received: Received[ContextQuery], identity: Identity) -> RefusalReason | None:
        """Return why a query may not be answered with its token; None if it may."""


class TokenJudge:
    """Judges tokens at the time of the call."""

    def __init__(self, verifier: TokenVerifier, rules: ClaimRules, *, now: Callable[[], Timestamp]) -> None:
        self._verifier = verifier
        self._rules = rules
        self._now = now

    async def identify(self, token: bytes) -> Identity | RefusalReason:
        """Return who asks, or why the token is refused."""
        claims = await self._verifier.claims(token)
        return claims if isinstance(claims, RefusalReason) else check_claims(claims, self._rules, self._now())


class Authenticator:
    """Judges the token of each query when the query is received; what the query itself claims can only narrow it."""

    def __init__(
        self,
        judge: TokenJudge,
        *,
        groups: Groups | None = None,
        replays: Replays | None = None,
        reply_topic: Callable[[TenantId], str | None] | None = None,
        meters: Meters | None = None,
    ) -> None:
        """Create one; reply_topic: the only topic for answers to a tenant, None where it can have none."""
        self._judge = judge
        self._groups = groups
        self._replays = replays
        self._reply_topic = reply_topic
        self._meters = meters or Meters()

    @property
    def keeps_apart(self) -> bool:
        """Whether answers go to topics of their tenants only."""
        return self._reply_topic is not None

    async def admit(self, received: Received[ContextQuery]) -> Received[ContextQuery] | Refusal:
        """Return the query in the name of who asks, or its refusal, which is counted."""
        return await self._admit(received, self._narrowed)

    async def admit_document_query(self, received: Received[DocumentQuery]) -> Received[DocumentQuery] | Refusal:
        """Return a document query in the name of who asks, or its refusal, which is counted.

        Its report goes to a topic of all tenants, and the replay window does not see it.
        """
        if self.keeps_apart or self._replays is not None:
            return self._refused(received.value, RefusalReason.UNSUPPORTED, None)
        return await self._admit(received, self._narrowed_document_query)

    async def _admit(
        self,
        received: Received[Q],
        narrowed: Callable[[Received[Q], Identity], Awaitable[Q | RefusalReason]],
    ) -> Received[Q] | Refusal:
        token = header(received.headers, TOKEN_HEADER)
        identity = await self._judge.identify(token) if token else RefusalReason.NO_TOKEN
        if isinstance(identity, RefusalReason):
            return self._refused(received.value, identity, None)
        query = await narrowed(received, identity)
        if isinstance(query, RefusalReason):
            return self._refused(received.value, query, identity)
        return replace(received, value=query, asker=identity.subject)

    def _refused(self, query: Q, reason: RefusalReason, identity: Identity | None) -> Refusal:
        self._meters.count_refused_query(reason)
        return Refusal(reason=reason, query_id=query.query_id, identity=identity)

    def _groups_of(self, identity: Identity) -> Collection[str]:
        return () if self._groups is None else self._groups.of(identity)

    async def _narrowed(self, received: Received[ContextQuery], identity: Identity) -> ContextQuery | RefusalReason:
        reply_topic = None if self._reply_topic is None else self._reply_topic(identity.tenant)
        if self.keeps_apart and reply_topic is None:
            return RefusalReason.INCOMPLETE
        replayed = None if self._replays is None else await self._replays.check(received, identity)
        if replayed is not None:
            return replayed
        return narrow_query(received.value, identity, groups=self._groups_of(identity), reply_topic=reply_topic)

    async def _narrowed_document_query(
        self, received: Received[DocumentQuery], identity: Identity
    ) -> DocumentQuery | RefusalReason:
        return narrow_query(received.value, identity, groups=self._groups_of(identity))
