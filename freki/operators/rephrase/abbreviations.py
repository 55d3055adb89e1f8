"""Expansion and abbreviation of terms by the definitions of texts."""

import re
from collections.abc import Iterable

from freki.schemas import Definition


def spelt_out(query: str, definitions: Iterable[Definition]) -> str:
    """Replace short forms by long forms; empty where there is none. The first definition of a form counts."""
    return _replaced(query, ((each.short, each.long) for each in definitions), flags=re.NOFLAG)


def made_short(query: str, definitions: Iterable[Definition]) -> str:
    """Replace long forms by their abbreviations; empty where there is none."""
    return _replaced(query, ((each.long, each.short) for each in definitions), flags=re.IGNORECASE)


def _replaced(query: str, pairs: Iterable[tuple[str, str]], *, flags: re.RegexFlag) -> str:
    said, done = query, set[str]()
    for old, new in pairs:
        if old not in done and new.casefold() not in query.casefold():
            # A function, since backslashes in a replacement text would be escapes.
            said = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new.replace("\\", r"\\"), said, flags=flags)
            done.add(old)
    return said if said != query else ""
