"""Keys of rows, which filter expressions and files name as they are."""

import re
from typing import TypeVar

from freki.schemas.errors import Rejected

K = TypeVar("K", bound=str)
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONG_KEY = re.compile(r"[A-Za-z0-9_:-]{1,128}")


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
