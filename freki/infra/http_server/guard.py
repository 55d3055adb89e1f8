"""Who may call the HTTP door: hosts, origins, sizes, rates, and tokens."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from freki.infra.http_server.problems import Problem
from freki.infra.settings import ServeSettings
from freki.schemas import TenantId
from freki.schemas.errors import Misconfigured
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.names import record

Identify = Callable[[bytes], Awaitable[Identity | RefusalReason]]
OnRefused = Callable[[RefusalReason, str], Awaitable[None]]
"""Called with why a token was refused, and the address of who sent it."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
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


def check_reach(settings: ServeSettings, *, tokens: bool) -> None:
    """Raise Misconfigured if other machines could call without a token, or no name is allowed by which they could."""
    if settings.host in LOOPBACK:
        return
    if not tokens:
        raise Misconfigured(
            f"FREKI_SERVE__HOST is {settings.host}, which others can reach: set FREKI_AUTH__JWKS, or leave the host out"
        )
    if not settings.allowed_hosts and _any_address(settings.host):
        raise Misconfigured(
            'FREKI_SERVE__ALLOWED_HOSTS is empty: name the hosts of clients, such as ["freki.example.org"]'
        )


def _any_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class Guard:
    """Refuses calls by other sites, of other hosts, without a valid token, or too many."""

    def __init__(
        self,
        settings: ServeSettings,
        identify: Identify | None,
        *,
        on_refused: OnRefused | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a guard.

        identify: what tells who a token is of, or None: callers are believed; on_refused: told of each refused token.
        """
        own = LOOPBACK if settings.host in LOOPBACK else (settings.host,)
        self._hosts = {*own, *settings.allowed_hosts}
        self._publishers = frozenset(settings.publishers)
        self._operators = frozenset(settings.operators)
        self._identify = identify
        self._rate = Rate(settings.calls_per_minute, clock=clock)
        self._failures = Rate(settings.failures_per_minute, clock=clock)
        self._on_refused = on_refused
        self._most = int(settings.max_body_mb * 1_000_000)

    def check_request(self, request: Request) -> None:
        """Raise Problem unless the request is one of this host and no page of another site sent it.

        Without this, a name that an attacker's DNS points here, or a form of any page, would reach the index.
        """
        if request.url.hostname not in self._hosts:
            raise Problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"{request.url.hostname} is no name of this server: see FREKI_SERVE__ALLOWED_HOSTS",
            )
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise Problem(HTTPStatus.FORBIDDEN, "pages of other sites may not call")
        length = request.headers.get("content-length", "0")
        if request.method in {"POST", "PUT"}:
            if "content-length" not in request.headers:
                raise Problem(HTTPStatus.LENGTH_REQUIRED, "send Content-Length")
            if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
        if not length.isdecimal() or int(length) > self._most:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"at most {self._most} bytes: FREKI_SERVE__MAX_BODY_MB; larger documents travel by claim on the topic",
            )

    async def caller(self, request: Request) -> Caller:
        """Tell who calls. Raises Problem for no valid token, and for too many calls."""
        caller = await self._known(request)
        wait_s = self._rate.wait_s(caller.name)
        if wait_s > 0:
            raise _too_many("too many calls: FREKI_SERVE__CALLS_PER_MINUTE", wait_s)
        return caller

    async def _known(self, request: Request) -> Caller:
        address = request.client.host if request.client else "unknown"
        if self._identify is None:
            return Caller(tenant=None, principals=(), token=None, name=address)
        network = network_of(address)
        if (wait_s := self._failures.left_s(network)) > 0:
            raise _too_many("too many calls without a valid token from your address", wait_s)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            self._failures.wait_s(network)
            raise _unauthorised("send a token: Authorization: Bearer …", "")
        identity = await self._identify(token.strip().encode())
        if isinstance(identity, RefusalReason):
            self._failures.wait_s(network)
            if self._on_refused is not None:
                await self._on_refused(identity, address)
            raise _unauthorised(identity.told, ', error="invalid_token"')
        return Caller(
            tenant=identity.tenant,
            principals=identity.principals,
            token=token.strip(),
            name=f"{identity.tenant}/{identity.subject}",
        )

    async def publisher(self, request: Request) -> Caller:
        """Tell who calls. Raises Problem as `caller` does, and unless the caller may change documents here."""
        caller = await self.caller(request)
        if self._identify is not None and not self._publishers.intersection(caller.principals):
            raise Problem(
                HTTPStatus.FORBIDDEN, "you may not change documents here: FREKI_SERVE__PUBLISHERS names who may"
            )
        return caller

    async def operator(self, request: Request) -> Caller:
        """Tell who calls. Raises Problem as `caller` does, and unless the caller is an operator.

        Groups of two tenants may have one name, so operators are named with their tenant.
        """
        caller = await self.caller(request)
        names = {f"{caller.tenant}/{principal}" for principal in (*caller.principals, caller.name.partition("/")[2])}
        if self._identify is not None and not self._operators.intersection(names):
            raise Problem(HTTPStatus.FORBIDDEN, "you are no operator: FREKI_SERVE__OPERATORS names who is")
        return caller


def tenant_of(caller: Caller, named: str | None, default: str) -> TenantId:
    """Return the tenant of a call. Raises Problem if the token is of another one than the call names."""
    if caller.tenant is None:
        return TenantId(named or default)
    if named not in (None, caller.tenant):
        raise Problem(HTTPStatus.FORBIDDEN, "your token is of another tenant")
    return caller.tenant


def network_of(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or the network of 64 bits that an IPv6 address is of."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found), 64), strict=False))


def _too_many(detail: str, wait_s: float) -> Problem:
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"Retry-After": str(int(wait_s) + 1)})


def _unauthorised(detail: str, more: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": f'Bearer realm="freki"{more}'})


class Rate:
    """Bucket of each caller, full in the beginning, refilled evenly."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str) -> float:
        """Take one call of the bucket, and return 0; or return how many seconds to wait for the next."""
        if not self._per_minute:
            return 0.0
        now, left = self._clock(), self._left(name)
        self._buckets.pop(name, None)
        taken = left >= 1
        self._buckets[name] = (left - 1 if taken else left, now)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - left) * 60 / self._per_minute

    def left_s(self, name: str) -> float:
        """Return how many seconds to wait for the next call of the bucket, without taking it; 0: none."""
        return max(0.0, (1 - self._left(name)) * 60 / self._per_minute) if self._per_minute else 0.0

    def _left(self, name: str) -> float:
        now, most = self._clock(), float(self._per_minute)
        left, at = self._buckets.get(name, (most, now))
        return min(most, left + (now - at) * most / 60)
