"""Replacement of the beginning of marks that texts imitate, also in look-alike or with invisible characters."""

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import Final

NAMED_CITATION: Final = r"[\[【〔](?=\s*(?:quelle|source|document|dokument)\W*\d)"
"""Beginning of a citation of any style, as a pattern that ignores case."""
_INVISIBLE: Final = frozenset({"Cf", "Cn", "Co", "Cs", "Me", "Mn"})
_FILLERS: Final = "\u115f\u1160"
"""Letters that are not displayed; all other such fillers decompose into them."""
_NOT_PLAIN: Final = re.compile(r"[^\t-\r\x1c-~]")
"""What `plain` may change: not ASCII, or not visible."""


def defuse(text: str, marks: re.Pattern[str], replacement: str) -> str:
    """Return the text with each character that begins a mark replaced; all others, and the length, are kept.

    marks: matched against the characters as `plain` gives them; must match one character, and what it looks ahead at
    must match with `replacement`, one character, in place of another beginning, too.
    """
    starts = [found.start() for found in marks.finditer(_NOT_PLAIN.sub(lambda each: plain(each[0]), text))]
    if not starts:
        return text
    letters = list(text)
    # A character may be several, or none, in the searched text.
    ends = list(accumulate(len(plain(letter)) for letter in text))
    for start in starts:
        letters[bisect_right(ends, start)] = replacement
    return "".join(letters)


@lru_cache(maxsize=1 << 14)
def plain(letter: str) -> str:
    """Return a character without font variant, width and accents; an invisible one is empty."""
    return "".join(each for each in unicodedata.normalize("NFKD", letter) if not _is_invisible(each))


def _is_invisible(letter: str) -> bool:
    category = unicodedata.category(letter)
    return category in _INVISIBLE or letter in _FILLERS or (category == "Cc" and not letter.isspace())
