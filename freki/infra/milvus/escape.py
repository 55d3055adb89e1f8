"""Texts and keys as they may stand in a filter expression."""

import re
from typing import TypeVar
from urllib.parse import quote, unquote

from freki.schemas.errors import Rejected

K = TypeVar("K", bound=str)
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONG_KEY = re.compile(r"[A-Za-z0-9_:-]{1,128}")

# What ends a literal in some grammar of Milvus or changes between its versions: Lite does not know the escape \n, the
# server cuts ideographs beyond the Basic Multilingual Plane to 16 bits. U+FFFF is the end of a prefix in filters.py.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\"'%\\\\\u2028\u2029\ud800-\udfff\uffff\U00010000-\U0010ffff]")


def armoured(text: str) -> str:
    """Replace each character that has a meaning in a filter by its percent-encoding, one by one.

    So every prefix of a text keeps being one. Filterable columns hold this form, and filters compare with it.
    """
    return _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), text)


def armoured_key(key: str) -> str:
    """Do the same for the key of an attribute; only ASCII letters, digits, dots, dashes and underscores stay."""
    return quote(key, safe="", errors="surrogatepass").replace("~", "%7E")


def plain(text: str) -> str:
    """Undo either."""
    return unquote(text, errors="surrogatepass")


def checked_key(key: K) -> K:
    """Give a chunk or root id back. Raises Rejected if it is more than letters, digits, dashes and underscores."""
    if not _KEY.fullmatch(key):
        raise Rejected(f"{key[:80]!r} is no id of a chunk or root")
    return key


def checked_long_key(key: K) -> K:
    """Give the key of a row, page or root back. Raises Rejected if it is more than a key of ours may be."""
    if not _LONG_KEY.fullmatch(key):
        raise Rejected(f"{key[:160]!r} is no key of a row, page or root")
    return key
