"""The one mapping of failed HTTP calls to the errors of `schemas.errors`."""

from http import HTTPStatus

import httpx

from freki.infra.http.retry_after import retry_after_s
from freki.schemas.errors import Busy, InfraError, Misconfigured, Rejected, Unavailable

OF_SETTINGS = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
)
"""Statuses of a wrong address, key or permission, where all requests go to one configured address."""
_TRANSIENT = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


def is_transient(status: int) -> bool:
    """Return whether the same request may succeed later.

    A status above 599 is not defined by HTTP and counts as a server error: RFC 9110, section 15.
    """
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TRANSIENT


def refusal(response: httpx.Response, message: str, *, hint: str, conflict_is_transient: bool = False) -> InfraError:
    """Return the error for a response that is not a success, from a server with one configured address.

    hint: which settings to check, appended to the message where they are to blame.
    """
    status = response.status_code
    if is_transient(status) or (conflict_is_transient and status == HTTPStatus.CONFLICT):
        wait_s = retry_after_s(response.headers.get("Retry-After", ""))
        gist = gist_of(status)
        return Unavailable(message, gist=gist) if wait_s is None else Busy(message, wait_s, gist=gist)
    if status in OF_SETTINGS or response.is_redirect:
        # Another address: a page to log in, or the node in charge. None is followed, which could get the credentials.
        return Misconfigured(f"{message}; {hint}")
    return Rejected(message, gist=gist_of(status))


def gist_of(failure: httpx.HTTPError | int) -> str:
    """Return the kind of a failure or status, without content or address of request and response."""
    match failure:
        case int():
            return f"HTTP {failure}"
        case httpx.TimeoutException():
            return "it took too long"
        case httpx.ConnectError():
            return "no connection"
    return "the connection broke"


def text_of(response: httpx.Response) -> str:
    """Return the content of a response for a message, whatever charset it names.

    httpx decodes `text` by that charset, and some that Python knows, as `undefined`, raise for any bytes.
    """
    return response.content.decode(errors="replace")
