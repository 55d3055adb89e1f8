"""Places in documents that a query may cite, and which of their documents it means."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from freki.schemas.citations import NO_QUANTITY, SHORT_NAME, with_plain_signs
from freki.schemas.numerals import value_of_roman

MAX_CITED = 32
"""Citations of a query that are looked for; a long letter may have hundreds."""

_ACT = (
    r"(?:VO|RL|Verordnung|Richtlinie|Beschluss|Regulation|Directive|Decision)(?:\s\([A-Z]{2,8}(?:,\s?[A-Za-z]{2,8})?\))?"
    r"(?:\s[Nn][ro]\.?)?\s(?P<act>\d{1,4}/\d{1,4})(?!\d)"
)
"""Pattern of an act of the European Union: `Verordnung (EU) 2016/679`, `Richtlinie 95/46/EG`."""
# Of a law that stands in brackets behind its long name, or right behind the section: `§ 5 auch für KFZ` names none.
_LAW = re.compile(
    r"[\s,]{0,3}(?:(?:(?:des|der|im|(?:in|aus|von|nach|laut|gemäß|gem\.)\s(?:de[rmn]|the)|(?:of|to)(?:\sthe)?|zu[mr]|the)\s)?"
    r"|(?:(?:[A-ZÄÖÜ][\w-]{1,60}|des|der|die|das|und|über|für|zu[mr]|von|in|im|of|the|on)\s){1,9}(?=\())"
    rf"\(?(?:{_ACT}|(?P<names>(?:\d{{1,2}}\.\s?)?{SHORT_NAME}"
    rf"(?:[\s-](?:{SHORT_NAME}|[IVX]{{1,5}}\b|\d{{1,2}}\b{NO_QUANTITY})){{0,2}})(?![\w-]))"
)
_NUMBER_OF_LAW = re.compile(
    rf"{SHORT_NAME}[\s-](?P<behind>[IVX]{{1,5}}|\d{{1,2}})(?![\w-])|(?<![\w.])(?P<before>\d{{1,2}})\.\s?{SHORT_NAME}"
    r"|\((?P<alone>[IVX]{1,5})\)"
)
_ROMAN = re.compile(r"[IVX]{1,5}")
_ACT_NUMBER = re.compile(r"(?<![\d/])\d{1,4}/\d{1,4}(?!\d)")
_JOINED = re.compile(r"[\s,;(]*(?:(?:und|oder|sowie|bis|and|or|to|with|i\.?\s?V\.?\s?m\.?|in\sVerbindung\smit)\s)?\s*")
_NAME = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_SHORT_NAME = re.compile(r"(?<![^\W\d_])(?:[A-ZÄÖÜ]{2,3}|[A-ZÄÖÜ][a-zäöüß][A-ZÄÖÜ]|[A-ZÄÖÜ]{2}[a-zäöüß])(?![^\W\d_])")
"""A name too short to count as a word: `BGB`, `PRV`."""


class CitedPlace(NamedTuple):
    """A place in a document that a query may cite."""

    document: str
    """Identity of its document."""
    name: str
    """Name of the document, which may hold that of the law: `Gesetz über … (NetzDG)`."""
    headings: Sequence[str]
    """From the document's to its own."""
    text: str


class CitedSpan(NamedTuple):
    """Where a text cites something."""

    start: int
    end: int
    is_article: bool = False


def laws_of(text: str, spans: Sequence[CitedSpan]) -> list[frozenset[str]]:
    """Return the short names of the law of each citation: those behind it, or of the next that it is joined with."""
    laws: list[frozenset[str]] = []
    following: CitedSpan | None = None
    for each in reversed(spans):
        named = _LAW.match(text, each.end, len(text) if following is None else following.start)
        law = _names_of_law(named) if named else frozenset()
        # Those of a range have one span.
        is_joined = following is not None and (
            each == following or _JOINED.fullmatch(text, each.end, following.start) is not None
        )
        if is_joined and following and each.is_article is following.is_article:
            law = laws[-1]
        laws.append(law)
        following = each
    return laws[::-1]


def _names_of_law(found: re.Match[str]) -> frozenset[str]:
    """Return the names of a match of _LAW; numbers in decimal: `sgb` and `5` of `SGB V`."""
    if found["act"]:
        return frozenset({found["act"]})
    names = _NAME.findall(found["names"])
    return frozenset(
        _decimal(name) if name.isdecimal() or _ROMAN.fullmatch(name) else name.casefold() for name in names
    )


def _names_of(place: CitedPlace) -> frozenset[str]:
    """Return the words of which one may be the short name of the law that a place is of, and the numbers of that law.

    The number is in the document's name or outermost heading: of `(SGB) Fünftes Buch (V)` and `SGB 5` it is 5.
    """
    words = {word.casefold() for text in (place.name, *place.headings) for word in _NAME.findall(text)}
    titles = (with_plain_signs(place.name), *place.headings[:1])
    numbers = {_decimal(found[found.lastgroup or 0]) for text in titles for found in _NUMBER_OF_LAW.finditer(text)}
    acts = {number for text in titles for number in _ACT_NUMBER.findall(text)}
    return frozenset(word for word in words if not word.isdecimal()) | numbers | acts


def _decimal(number: str) -> str:
    return str(value_of_roman(number)) if _ROMAN.fullmatch(number) else str(int(number))


def of_law(within: Sequence[int], law: AbstractSet[str], places: Sequence[CitedPlace]) -> list[int]:
    """Return those of the places that have most short names of a law, at least one."""
    called = {place: _common(law, _names_of(places[place])) for place in within}
    # Of `VwVfG NRW` both names count: many are called VwVfG.
    most = max(called.values(), default=0)
    return [place for place in within if called[place] == most > 0]


def _common(law: AbstractSet[str], names: AbstractSet[str]) -> int:
    """Return how many names of a law are among others; none if both have numbers, and other ones."""
    numbers = frozenset(filter(str.isdecimal, law))
    others = frozenset(filter(str.isdecimal, names)) if numbers else numbers
    is_other = bool(others) and numbers.isdisjoint(others)
    return 0 if is_other or not (law - numbers) & names else len(law & names)


def called_in(query: str, places: Sequence[CitedPlace]) -> list[int]:
    """Return how many words of a query each place's document is called by, in the genitive too, or in short."""
    plain = with_plain_signs(query)
    words, short = _words(plain), frozenset(_SHORT_NAME.findall(plain))
    called = {
        name: sum(word.startswith(_words(name)) for word in words) + len(short.intersection(_SHORT_NAME.findall(name)))
        for name in {place.name for place in places}
    }
    return [called[place.name] for place in places]


def of_one_document(within: Sequence[int], places: Sequence[CitedPlace], called: Sequence[int]) -> Iterator[int]:
    """Yield those of the places that are of the document that is called by most words; of the first such one."""
    if within:
        document = places[max(within, key=called.__getitem__)].document
        yield from (place for place in within if places[place].document == document)


def line_matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches at the beginnings of lines."""
    # `finditer` with `^` tries each character: ten times as slow.
    start = 0
    while True:
        if found := pattern.match(text, start):
            yield found
        start = text.find("\n", start) + 1
        if not start:
            return


def numbers_through(first: str, last: str) -> list[str]:
    """Return the numbers of a range, both included: of few only the ends are known, or those of letters `2a`."""
    before, _, low = first.rpartition(".")
    other, _, high = last.rpartition(".")
    if before != other or not (low.isdecimal() and high.isdecimal() and int(low) < int(high) <= int(low) + MAX_CITED):
        return [first, last]
    return [f"{before}.{number}" if before else str(number) for number in range(int(low), int(high) + 1)]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORD.findall(text))
