"""Escaping of texts and keys for filter expressions."""

import re
from typing import TypeVar
from urllib.parse import quote, unquote

from freki.schemas.errors import Rejected

K = TypeVar("K", bound=str)
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONG_KEY = re.compile(r"[A-Za-z0-9_:-]{1,128}")

# Characters that end a literal in some grammar of Milvus or that versions treat differently: Lite does not know the
# escape \n, the server truncates code points above U+FFFF to 16 bits. U+FFFF ends a prefix range in filters.py.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\"'%\\\\\u2028\u2029\ud800-\udfff\uffff\U00010000-\U0010ffff]")


def escaped(text: str) -> str:
    """Return the text with each character that is special in a filter percent-encoded on its own.

    Prefixes of texts stay prefixes. Filterable columns hold this form, and filters compare with it.
    """
    return _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), text)


def escaped_key(key: str) -> str:
    """Return the key of an attribute percent-encoded, except ASCII letters, digits, dots, dashes and underscores."""
    return quote(key, safe="", errors="surrogatepass").replace("~", "%7E")


def unescaped(text: str) -> str:
    """Return the original of `escaped` or `escaped_key`."""
    return unquote(text, errors="surrogatepass")


def checked_key(key: K) -> K:
    """Return a chunk or root id. Raises Rejected unless it is 1 to 64 letters, digits, dashes and underscores."""
    if not _KEY.fullmatch(key):
        raise Rejected(f"{key[:80]!r} is not the id of a chunk or root")
    return key


def checked_long_key(key: K) -> K:
    """Return the key of a row, page or root. Raises Rejected unless it is a valid key of at most 128 characters."""
    if not _LONG_KEY.fullmatch(key):
        raise Rejected(f"{key[:160]!r} is not the key of a row, page or root")
    return key
