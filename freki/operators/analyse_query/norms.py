"""Norms that a text cites: sections of laws, and articles."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from freki.schemas.citations import ARTICLES, FOLLOWING, NO_BREAK, PARTS, SECTIONS, SPACED_LETTER

MAX_NAME_WORDS = 3
"""Maximum words of the name of a law: `German Civil Code`."""

_NUMBER = rf"\d{{1,6}}(?:{SPACED_LETTER}|[a-z]??(?={FOLLOWING})|[a-z]?\b)"
_LIST = rf"{_NUMBER}(?:\s{{0,3}}(?:,|und|bis|oder|and|to|or|[-–])\s{{0,3}}(?:§§?\s?)?{_NUMBER}){{0,20}}"
_CITED = re.compile(
    rf"(?:§§?|\b(?:{ARTICLES}|{SECTIONS}))\s{{0,3}}(?P<numbers>{_LIST}){PARTS}(?:\s?(?:ff|(?P<next>f))\b\.?)?"
)
_NUMBERS = re.compile(rf"(?P<digits>\d{{1,6}})(?P<letter>{SPACED_LETTER}|[a-z]\b)?")
_RANGE = re.compile(r"\s*(?:bis|to|[-–])[\s§]*")
_HEADING = re.compile(r"\W{0,8}(?P<digits>\d{1,6})(?P<letter>[a-z])?\b")
_SMALL = frozenset(
    {"a", "an", "and", "das", "dem", "den", "der", "des", "die", "from", "gem", "gemäss", "i", "im", "in", "laut", "m"}
    | {"nach", "of", "oder", "or", "s", "siehe", "sowie", "the", "u", "und", "v", "vgl", "von", "zu", "zum"}
)
_WORD = re.compile(r"[^\W_]+")
_SHORT_NAME = re.compile(r"\w{0,20}[A-ZÄÖÜ]\w{0,20}[A-ZÄÖÜ]")

Number = tuple[int, str]
"""Number and letter of a section, which sort as laws count them: § 573, § 573a, § 574."""


class CitedNorms(NamedTuple):
    """Sections or articles that are cited together."""

    text: str
    """As cited: `§§ 5, 7 bis 9`."""
    ranges: tuple[tuple[Number, Number], ...]
    """First and last of each: 5 and 5, 7 and 9."""


def cited_norms(text: str) -> Iterator[CitedNorms]:
    """Yield the norms that a text cites, in its order; `§ 5 f.` are § 5 and § 6."""
    for found in _CITED.finditer(_plain(text)):
        ranges: list[tuple[Number, Number]] = []
        end = 0
        for each in _NUMBERS.finditer(found["numbers"]):
            number = _number(each)
            is_last = ranges and _RANGE.fullmatch(found["numbers"], end, each.start())
            first = ranges.pop()[0] if is_last else number
            ranges.append((first, number))
            end = each.end()
        if found["next"]:
            first, (last, _) = ranges.pop()
            ranges.append((first, (last + 1, "")))
        yield CitedNorms(found[0].strip(), tuple(ranges))


def absent_norms(asked: Iterable[CitedNorms], texts: Iterable[str], headings: Iterable[str]) -> tuple[CitedNorms, ...]:
    """Return those of the norms that no text and no heading cites, in any spelling.

    Of norms that are cited together one is enough, and a range has what lies between. § and Art. are not told apart, as
    many confuse them. A heading may begin with the bare number: manuals have `5.1 Setup` for section 5.
    """
    lines = list(headings)
    found = {each for text in (*texts, *lines) for norms in cited_norms(text) for each in norms.ranges}
    numbers = [_number(number) for line in lines if (number := _HEADING.match(_plain(line)))]
    found |= {(number, number) for number in numbers}
    return tuple(norms for norms in asked if not any(_meet(one, other) for one in norms.ranges for other in found))


def is_bare_citation(text: str) -> bool:
    """Return whether a text is little more than norms: with at most the name of a law behind them, or short before."""
    found = list(_CITED.finditer(_plain(text)))
    if not found:
        return False
    before, *behind = _CITED.split(_plain(text))[:: _CITED.groups + 1]
    return all(map(_SHORT_NAME.match, _words(before))) and all(len(_words(part)) <= MAX_NAME_WORDS for part in behind)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word.casefold() not in _SMALL]


def _meet(one: tuple[Number, Number], other: tuple[Number, Number]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _number(found: re.Match[str]) -> Number:
    return int(found["digits"]), (found["letter"] or "").strip()


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(NO_BREAK)
