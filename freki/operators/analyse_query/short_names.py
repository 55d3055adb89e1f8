"""Documents that a query names by their short names, which stand in brackets at the end of their titles."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from freki.schemas.citations import SHORT_NAME, with_plain_signs
from freki.schemas.numerals import value_of_roman

_IN_BRACKETS = re.compile(r"\(([^()]{2,80})\)\W*$")
_BETWEEN = re.compile(r"\s[-–—]\s|[,;/]")
_WORD = re.compile(r"[^\W_]+")
_ABBREVIATION = re.compile(SHORT_NAME)
_LONG = re.compile(r"[A-ZÄÖÜ][^\W\d_]{9,}")
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_ROMAN = re.compile(r"[IVX]{1,5}")
_GENITIVE = re.compile(r"(?<=[^\W\d_]{9})e?s$")


def words_of(query: str) -> frozenset[str]:
    """Return the words of a query as `names_document` compares them."""
    return frozenset(map(_folded, _WORD.findall(with_plain_signs(query))))


def names_document(words: frozenset[str], titles: Iterable[str]) -> bool:
    """Return whether a query with these words names a document with these titles, such as its name and first heading.

    `Gebühren IFG` and `Gebühren nach dem Informationsfreiheitsgesetz` name `Gesetz zur Regelung … (IFG)` and `Gesetz
    zur Regelung … (Informationsfreiheitsgesetz – IFG)`, and a document named `IFG`; `SGB X` does not name `… (SGB I)`.
    """
    years = frozenset(filter(_YEAR.fullmatch, words))
    return any(
        name.words <= words and (not (years and name.years) or bool(years & name.years))
        for title in titles
        for name in _short_names(title)
    )


class _ShortName(NamedTuple):
    words: frozenset[str]
    years: frozenset[str]
    """Which a query may leave out."""


def _short_names(title: str) -> Iterator[_ShortName]:
    plain = with_plain_signs(title).strip()
    in_brackets = _IN_BRACKETS.search(plain)
    for name in _BETWEEN.split(in_brackets[1]) if in_brackets else [plain]:
        words = _WORD.findall(name)
        named = [word for word in words if _ABBREVIATION.fullmatch(word)]
        if named and (in_brackets or len(words) <= len(named) + 1):
            years = frozenset(filter(_YEAR.fullmatch, words))
            yield _ShortName(frozenset(map(_folded, words)) - years, years)
        elif in_brackets and len(words) == 1 and _LONG.fullmatch(words[0]):
            yield _ShortName(frozenset({_folded(words[0])}), frozenset())


def _folded(word: str) -> str:
    """Return a word as it is compared: in small letters, without the ending of a genitive, IV as 4."""
    return str(value_of_roman(word)) if _ROMAN.fullmatch(word) else _GENITIVE.sub("", word.casefold())
