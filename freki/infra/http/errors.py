"""What failures of HTTP calls mean for whoever asked."""

from http import HTTPStatus

import httpx

OF_SETTINGS = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
)
"""Where only one address is ever asked: not the request is wrong, but the address, the key or what the key may do."""
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


def may_pass(status: int) -> bool:
    """Tell whether the same request may succeed later.

    A status above 599 is none of HTTP's, and counts as the server's failure: RFC 9110, section 15.
    """
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER


def gist_of(failure: httpx.HTTPError | int) -> str:
    """Name the kind of a failure, or of a status, and nothing that was sent or said, nor where."""
    match failure:
        case int():
            return f"HTTP {failure}"
        case httpx.TimeoutException():
            return "it took too long"
        case httpx.ConnectError():
            return "no connection"
    return "the connection broke"
