"""Numbered clauses of contracts, manuals and minutes that a text cites: `Ziffer 5.2`, `Abschnitt IV`, `clause 7`."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from freki.operators.analyse_query.norms import MAX_NORMS, CitedPlace
from freki.schemas.citations import NO_BREAK

_CHAPTERS = r"kapitels?|kap\.|klauseln?|vertragspunkt(?:en?|s)?|chapters?|clauses?"
_GERMAN = r"ziffern?|ziff\.|nr\.|nummern?|abschnitt(?:en?|e?s)?|punkt(?:en?|s)?"
_PARTS = rf"{_GERMAN}|top|sec(?:\.|tions?)|no\.|numbers?|items?|points?"
_ROMAN = r"(?-i:[IVX]{1,6}\b)"
# A number without points behind the words for parts is mostly one of a section of a law, or counts something.
# In English `section I` may go on with a verb.
_CITED = re.compile(
    rf"\b(?:(?:{_CHAPTERS})\s{{0,3}}(?P<any>\d{{1,3}}(?:\.\d{{1,3}}){{0,5}})"
    rf"|(?:{_GERMAN}|kapitels?|kap\.|klauseln?)\s{{0,3}}(?P<roman>{_ROMAN})"
    rf"|(?:{_PARTS})\s{{0,3}}(?P<pointed>\d{{1,3}}(?:\.\d{{1,3}}){{1,5}}))(?![\w%]|[.,]\d)",
    re.IGNORECASE,
)
_HEADING = re.compile(
    rf"[^\w§]{{0,12}}(?:(?:{_CHAPTERS}|{_PARTS})\s)?(\d{{1,3}}(?:\.\d{{1,3}}){{0,5}}|{_ROMAN})(?![\w.,]\w)",
    re.IGNORECASE,
)
# Items of lists have numbers without points.
_LINE = re.compile(r"^[^\w\n]{0,12}(\d{1,3}(?:\.\d{1,3}){1,5})(?=[.)]?\s)", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]{4,}")
_SHORT_NAME = re.compile(r"(?<![^\W\d_])(?:[A-ZÄÖÜ]{2,3}|[A-ZÄÖÜ][a-zäöüß][A-ZÄÖÜ]|[A-ZÄÖÜ]{2}[a-zäöüß])(?![^\W\d_])")
"""A name too short to count as a word: `BGB`, `PRV`."""


def cited_clauses(text: str) -> Iterator[str]:
    """Yield the numbers of the clauses that a text cites, in its order."""
    for found in _CITED.finditer(text.translate(NO_BREAK)):
        yield found["any"] or found["roman"] or found["pointed"]


def clause_places(query: str, places: Sequence[CitedPlace]) -> set[int]:
    """Return which of the places are, or hold, a clause that a query cites.

    Places are in order of relevance. A place holds a clause if one of its headings begins with the number, or, where
    that has points, a line of its text. Of several documents with such a clause that one counts whose name has most
    words of the query, in the genitive too: `Ziffer 5.2 des Rahmenvertrags`; of equal ones the first.
    """
    asked = list(islice(dict.fromkeys(cited_clauses(query)), MAX_NORMS))
    if not asked:
        return set()
    numbers = [_numbers_of(place) for place in places]
    called = called_in(query, places)
    found: set[int] = set()
    for clause in asked:
        within = [place for place, held in enumerate(numbers) if clause in held]
        found.update(of_one_document(within, places, called))
    return found


def called_in(query: str, places: Sequence[CitedPlace]) -> list[int]:
    """Return how many words of a query each place's document is called by, in the genitive too, or in short."""
    plain = query.translate(NO_BREAK)
    words, short = _words(plain), frozenset(_SHORT_NAME.findall(plain))
    return [
        sum(word.startswith(_words(place.name)) for word in words)
        + len(short.intersection(_SHORT_NAME.findall(place.name)))
        for place in places
    ]


def of_one_document(within: Sequence[int], places: Sequence[CitedPlace], called: Sequence[int]) -> Iterator[int]:
    """Yield those of the places that are of the document that is called by most words; of the first such one."""
    if within:
        document = places[max(within, key=called.__getitem__)].document
        yield from (place for place in within if places[place].document == document)


def _numbers_of(place: CitedPlace) -> set[str]:
    headings = (number[1] for heading in place.headings if (number := _HEADING.match(heading.translate(NO_BREAK))))
    return {*headings, *_LINE.findall(place.text.translate(NO_BREAK))}


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORD.findall(text))
