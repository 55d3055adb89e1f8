"""Who may call an API of `freki serve`, by whatever protocol: tokens, rates, publishers, operators, tenants."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final

from freki.infra.api.forwarded import client_of
from freki.infra.settings import ServeSettings
from freki.schemas import TenantId
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.names import record

Identify = Callable[[bytes], Awaitable[Identity | RefusalReason]]
OnRefused = Callable[[RefusalReason, str], Awaitable[None]]
"""Called with why a token was refused, and the address of who sent it."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
SEVERAL_TOKENS: Final = "authorization: it comes more than once; send it once"
REMEMBERED: Final = 10_000
"""Callers whose rates are remembered."""


@record
class Caller:
    """Who calls."""

    tenant: TenantId | None
    """None: the caller may name any."""
    principals: tuple[str, ...]
    token: str | None
    name: str
    """For the rate: the user, or the address."""
    names: frozenset[str] = frozenset()
    """User and groups of the token, each as `tenant/group`."""


Judge = Callable[..., Awaitable[Caller]]
"""Tells who calls, by all values of `authorization` and `x-forwarded-for`, and an address, as methods of Callers do."""


class Wrong(Enum):
    """What is wrong with a call."""

    NO_TOKEN = "no token"  # noqa: S105 - no secret
    INVALID_TOKEN = "invalid token"  # noqa: S105
    SEVERAL_TOKENS = "several tokens"
    FORBIDDEN = "forbidden"
    TOO_MANY = "too many"


class CallRefused(Exception):
    """A call that is not let in."""

    def __init__(self, wrong: Wrong, detail: str, *, retry_after_s: int = 0) -> None:
        super().__init__(detail)
        self.wrong = wrong
        self.detail = detail
        self.retry_after_s = retry_after_s


def check_tokens(settings: ServeSettings, *, tokens: bool) -> None:
    """Raise Misconfigured if other machines could call without a token."""
    if settings.host not in LOOPBACK and not tokens:
        raise Misconfigured(
            f"FREKI_SERVE__HOST is {settings.host}, which others can reach: set FREKI_AUTH__JWKS, or leave the host out"
        )


class Callers:
    """Tells who calls. All APIs of a process share one, so that a caller has one rate."""

    def __init__(
        self,
        settings: ServeSettings,
        identify: Identify | None,
        *,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Create it.

        identify: what tells who a token is of, or None: callers are believed; on_refused: told of each refused token.
        """
        self._identify = identify
        self._rate = Rate(settings.calls_per_minute)
        self._failures = Rate(settings.failures_per_minute)
        self._on_refused = on_refused
        self.take_over(settings)

    def take_over(self, settings: ServeSettings) -> None:
        """Judge later calls by these settings; what callers have used of their rate stays counted."""
        self._publishers = frozenset(settings.publishers)
        self._operators = frozenset(settings.operators)
        self._trusted = tuple(map(ipaddress.ip_network, settings.trusted_proxies))
        self._failures.per_minute = settings.failures_per_minute
        self._rate.per_minute = settings.calls_per_minute

    @property
    def have_tokens(self) -> bool:
        """Whether each call needs a token."""
        return self._identify is not None

    async def caller(self, authorizations: Sequence[str], *, address: str, forwarded: Sequence[str] = ()) -> Caller:
        """Tell who calls, by one `Bearer TOKEN`. Raises CallRefused for no valid token, and for too many calls.

        address: of the other end of the connection; forwarded: values of X-Forwarded-For, which count if it is that of
        a trusted proxy.
        """
        caller = await self._known(authorizations, client_of(address, forwarded, trusted=self._trusted))
        wait_s = self._rate.wait_s(caller.name)
        if wait_s > 0:
            raise _too_many("too many calls: FREKI_SERVE__CALLS_PER_MINUTE", wait_s)
        return caller

    async def publisher(self, authorizations: Sequence[str], *, address: str, forwarded: Sequence[str] = ()) -> Caller:
        """Tell who calls. Raises CallRefused as `caller` does, and unless the caller may change documents here."""
        caller = await self.caller(authorizations, address=address, forwarded=forwarded)
        if self._identify is not None and not self._publishers.intersection(caller.names):
            raise CallRefused(
                Wrong.FORBIDDEN, "you may not change documents here: FREKI_SERVE__PUBLISHERS names who may"
            )
        return caller

    async def operator(self, authorizations: Sequence[str], *, address: str, forwarded: Sequence[str] = ()) -> Caller:
        """Tell who calls. Raises CallRefused as `caller` does, and unless the caller is an operator."""
        caller = await self.caller(authorizations, address=address, forwarded=forwarded)
        if self._identify is not None and not self._operators.intersection(caller.names):
            raise CallRefused(Wrong.FORBIDDEN, "you are no operator: FREKI_SERVE__OPERATORS names who is")
        return caller

    async def is_still_operator(self, caller: Caller) -> bool:
        """Return whether an operator's token is still valid and one of an operator; this counts as no call."""
        if self._identify is None:
            return True
        identity = await self._identify((caller.token or "").encode())
        return isinstance(identity, Identity) and not self._operators.isdisjoint(identity.names)

    async def _known(self, authorizations: Sequence[str], address: str) -> Caller:
        if self._identify is None:
            return Caller(tenant=None, principals=(), token=None, name=address)
        network = network_of(address)
        if (wait_s := self._failures.left_s(network)) > 0:
            raise _too_many("too many calls without a valid token from your address", wait_s)
        if len(authorizations) > 1:
            # A proxy that checks calls may have read another one.
            raise CallRefused(Wrong.SEVERAL_TOKENS, SEVERAL_TOKENS)
        scheme, _, token = "".join(authorizations).partition(" ")
        if scheme.lower() != "bearer" or not token:
            self._failures.wait_s(network)
            raise CallRefused(Wrong.NO_TOKEN, "send a token: Authorization: Bearer …")
        identity = await self._identify(token.strip().encode())
        if isinstance(identity, RefusalReason):
            self._failures.wait_s(network)
            if self._on_refused is not None:
                await self._on_refused(identity, address)
            raise CallRefused(Wrong.INVALID_TOKEN, identity.message)
        return Caller(
            tenant=identity.tenant,
            principals=identity.principals,
            token=token.strip(),
            name=f"{identity.tenant}/{identity.subject}",
            names=identity.names,
        )


def tenant_of(caller: Caller, named: str | None, default: str) -> TenantId:
    """Return the tenant of a call.

    Raises CallRefused if the token is of another one than the call names, and Rejected for an empty name: that of a
    variable that was not set would mean the documents of the default one.
    """
    if named is not None and not named.strip():
        raise Rejected("tenant: it is empty; name one, or leave it out")
    if caller.tenant is None:
        return TenantId(default if named is None else named)
    if named not in (None, caller.tenant):
        raise CallRefused(Wrong.FORBIDDEN, "your token is of another tenant")
    return caller.tenant


def _too_many(detail: str, wait_s: float) -> CallRefused:
    return CallRefused(Wrong.TOO_MANY, detail, retry_after_s=int(wait_s) + 1)


def network_of(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or the network of 64 bits that an IPv6 address is of."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found), 64), strict=False))


class Rate:
    """Bucket of each caller, full in the beginning, refilled evenly."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        """Most calls of one caller; 0: any number."""
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str) -> float:
        """Take one call of the bucket, and return 0; or return how many seconds to wait for the next."""
        if not self.per_minute:
            return 0.0
        now, left = self._clock(), self._left(name)
        self._buckets.pop(name, None)
        taken = left >= 1
        self._buckets[name] = (left - 1 if taken else left, now)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - left) * 60 / self.per_minute

    def left_s(self, name: str) -> float:
        """Return how many seconds to wait for the next call of the bucket, without taking it; 0: none."""
        return max(0.0, (1 - self._left(name)) * 60 / self.per_minute) if self.per_minute else 0.0

    def _left(self, name: str) -> float:
        now, most = self._clock(), float(self.per_minute)
        left, at = self._buckets.get(name, (most, now))
        return min(most, left + (now - at) * most / 60)
