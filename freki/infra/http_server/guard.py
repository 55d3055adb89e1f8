"""Which requests the HTTP API lets in: hosts, origins, sizes, and who calls."""

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeGuard, cast
from urllib.parse import unquote_to_bytes, urlsplit

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from freki.infra.api.callers import LOOPBACK, Caller, Callers, CallRefused, Judge, Wrong, check_tokens
from freki.infra.api.forwarded import FORWARDED
from freki.infra.api.sizes import MOST_VALUES, TOO_MANY_VALUES, QuerySizes
from freki.infra.http_server.problems import Problem
from freki.infra.settings import ServeSettings
from freki.schemas.errors import Misconfigured

_STATUS = {
    Wrong.NO_TOKEN: HTTPStatus.UNAUTHORIZED,
    Wrong.INVALID_TOKEN: HTTPStatus.UNAUTHORIZED,
    Wrong.SEVERAL_TOKENS: HTTPStatus.BAD_REQUEST,
    Wrong.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Wrong.TOO_MANY: HTTPStatus.TOO_MANY_REQUESTS,
}

_VALUE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\[{]', re.DOTALL)
"""A text of JSON, also one that is not closed, or a sign beside which values stand; no byte is read twice."""


def check_reach(settings: ServeSettings, *, tokens: bool) -> None:
    """Raise Misconfigured if other machines could call without a token, or no name is allowed by which they could."""
    check_tokens(settings, tokens=tokens)
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

    def __init__(self, settings: ServeSettings, callers: Callers, sizes: QuerySizes) -> None:
        self._callers = callers
        self._sizes = sizes
        self.take_over(settings)

    def take_over(self, settings: ServeSettings) -> None:
        """Judge later requests by these settings; what callers have used of their rate stays counted."""
        own = LOOPBACK if settings.host in LOOPBACK else (settings.host,)
        self._hosts = {*own, *settings.allowed_hosts}
        self._most = int(settings.max_body_mb * 1_000_000)
        self._callers.take_over(settings)

    def check_request(self, request: Request) -> None:
        """Raise Problem unless the request is one of this host and no page of another site sent it.

        Without this, a name that an attacker's DNS points here, or a form of any page, would reach the index.
        """
        # As it was sent: `request.url` has the server's own name in place of one with signs that it does not know.
        host = request.headers.get("host", "")
        if (named := _name_of(host)) not in self._hosts:
            raise Problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"{named or repr(host)} is no name of this server: see FREKI_SERVE__ALLOWED_HOSTS",
            )
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Problem(HTTPStatus.FORBIDDEN, "pages of other sites may not call")
        _check_address(request)
        length = request.headers.get("content-length", "0")
        if request.method in {"POST", "PUT"}:
            # With both the body ends where its chunks end, whatever length was told.
            if "content-length" not in request.headers or "transfer-encoding" in request.headers:
                raise Problem(HTTPStatus.LENGTH_REQUIRED, "send Content-Length, and no Transfer-Encoding")
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
            if request.headers.get("content-encoding", "identity").lower() != "identity":
                raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body as it is, without Content-Encoding")
        elif length != "0" or "transfer-encoding" in request.headers:
            # Whoever sends one expects that it counts.
            raise Problem(HTTPStatus.BAD_REQUEST, f"{request.method} has no body here: parameters go in the address")
        if not length.isdecimal() or int(length) > self._most:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"at most {self._most} bytes: FREKI_SERVE__MAX_BODY_MB; larger documents travel by claim on the topic",
            )

    async def caller(self, request: Request) -> Caller:
        """Tell who calls. Raises Problem for no valid token, and for too many calls."""
        return await self._judged(request, self._callers.caller)

    async def publisher(self, request: Request) -> Caller:
        """Tell who calls. Raises Problem as `caller` does, and unless the caller may change documents here."""
        return await self._judged(request, self._callers.publisher)

    async def operator(self, request: Request) -> Caller:
        """Tell who calls. Raises Problem as `caller` does, and unless the caller is an operator."""
        return await self._judged(request, self._callers.operator)

    async def is_still_operator(self, caller: Caller) -> bool:
        """Return whether an operator's token is still valid and one of an operator; this counts as no call."""
        return await self._callers.is_still_operator(caller)

    async def check_size(self, request: Request) -> None:
        """Raise Problem for a body above what calls without a document need: parsing it would stall all callers.

        Short ones take long too where they hold many values, or many errors.
        """
        if (why := self._sizes.refusal(int(request.headers.get("content-length", "0")))) is not None:
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        body = await request.body()
        if b"\0" in body:
            # Of UTF-16 and UTF-32, which would be parsed, and whose values are not counted.
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "body: it has a null byte; send JSON in UTF-8")
        if any(count >= MOST_VALUES for count, _ in enumerate(_VALUE.finditer(body))):
            detail = f"{TOO_MANY_VALUES}: texts, lists, objects and commas count"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)

    async def _judged(self, request: Request, judge: Judge) -> Caller:
        """Return who calls, judged once however often it is asked for: each time counts for the rate."""
        found: Caller | None = getattr(request.state, judge.__name__, None)
        if found is None:
            with as_problem():
                found = await judge(
                    request.headers.getlist("authorization"),
                    address=_address(request),
                    forwarded=request.headers.getlist(FORWARDED),
                )
            setattr(request.state, judge.__name__, found)
        return found


class GuardedRoute(APIRoute):
    """Judges who calls before the body is parsed: that of a stranger may be made to take long, and much memory."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()
        judges = [each.call for each in self.dependant.dependencies if _is_of_guard(each.call)]

        # Of whoever has a token.
        small = [_guard_of(judge) for judge in judges if judge.__name__ == Guard.caller.__name__]

        async def judged(request: Request) -> Response:
            request = _UniqueNames(request.scope, request.receive)
            for judge in judges:
                await judge(request)
            for guard in small:
                await guard.check_size(request)
            return await handle(request)

        return judged


class RepeatedName(ValueError):
    """A body of which one reader may take one value, and another one another."""


class _UniqueNames(Request):
    """A request in whose body no object has a name twice: a proxy that checks calls may have read the other value."""

    async def json(self) -> Any:  # noqa: ANN401 - of Starlette
        """Return what the body holds. Raises RepeatedName."""
        return json.loads(await self.body(), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        # Escaped, as it may hold what UTF-8 cannot write.
        raise RepeatedName(f"{json.dumps(twice)} comes more than once in it; send it once")
    return found


def _guard_of(judge: Judge) -> Guard:
    return cast("Guard", getattr(judge, "__self__", None))


def _is_of_guard(call: Callable[..., Any] | None) -> TypeGuard[Judge]:
    return isinstance(getattr(call, "__self__", None), Guard)


def _check_address(request: Request) -> None:
    """Raise Problem for an address that would be read as that of another document: with bad UTF-8, or a line break."""
    for part in (request.scope.get("raw_path") or b"", request.scope["query_string"]):
        try:
            unquote_to_bytes(part).decode()
        except UnicodeDecodeError as error:
            wrong = "".join(f"%{byte:02X}" for byte in error.object[error.start : error.end])
            raise Problem(
                HTTPStatus.BAD_REQUEST, f"{wrong} in the address is no UTF-8: percent-encode its text as UTF-8"
            ) from error
    if "\n" in request.scope["path"]:
        # Routes leave one at the end of an address out, and so would name another document.
        raise Problem(HTTPStatus.BAD_REQUEST, "the address has a line break, %0A: no id of a document has one")


def _name_of(host: str) -> str:
    """Return the name in a `Host` header without its port, in small letters; empty if there is none.

    A user before the name, or a path behind it, makes it none: a proxy may have taken another part for the name.
    """
    try:
        parts = urlsplit(f"//{host}")
    except ValueError:
        return ""
    return parts.hostname or "" if parts.netloc == host and "@" not in host else ""


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


@contextmanager
def as_problem() -> Iterator[None]:
    """Raise Problem for CallRefused."""
    try:
        yield
    except CallRefused as refused:
        raise _problem(refused) from refused


def _problem(refused: CallRefused) -> Problem:
    headers = {}
    if refused.wrong is Wrong.TOO_MANY:
        headers["Retry-After"] = str(refused.retry_after_s)
    if refused.wrong in {Wrong.NO_TOKEN, Wrong.INVALID_TOKEN}:
        more = ', error="invalid_token"' if refused.wrong is Wrong.INVALID_TOKEN else ""
        headers["WWW-Authenticate"] = f'Bearer realm="freki"{more}'
    return Problem(_STATUS[refused.wrong], refused.detail, headers=headers or None)
