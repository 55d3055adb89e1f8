"""What the status of an HTTP answer means for whoever asked."""

from http import HTTPStatus

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
