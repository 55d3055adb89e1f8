"""Credentials of HTTP calls, kept out of what clients and servers say."""

import base64
import binascii
from contextlib import suppress

import httpx

from freki.schemas.masking import MASK

_LEAST = 4
"""Shorter credentials are not looked for: they cannot be told from other text."""


def split_credentials(url: str) -> tuple[str, httpx.BasicAuth | None]:
    """Return a URL without name and password, and these as authentication; None without any.

    httpx quotes the URL of a request in its errors and logs. What is no URL is returned as it is.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url, None
    if not parsed.userinfo:
        return url, None
    return str(parsed.copy_with(userinfo=b"")), httpx.BasicAuth(parsed.username, parsed.password)


def without_credentials(response: httpx.Response, text: str) -> str:
    """Return text of a response with the credentials of its request masked: servers repeat wrong ones."""
    for secret in sorted(_sent(response.request), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _sent(request: httpx.Request) -> set[str]:
    value = request.headers.get("Authorization", "").rpartition(" ")[2]
    found = {value, request.url.password, request.url.userinfo.decode("ascii", errors="replace")}
    # A bearer token is no base64 of text.
    with suppress(binascii.Error, ValueError):
        found.add(base64.b64decode(value, validate=True).decode().partition(":")[2])
    return {each for each in found if len(each) >= _LEAST}
