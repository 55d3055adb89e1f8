"""Numbered clauses of contracts, manuals and minutes that a text cites: `Ziffer 5.2`, `Abschnitt IV`, `clause 7`."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from freki.operators.analyse_query.places import MAX_CITED, CitedPlace, called_in, of_one_document
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
    asked = list(islice(dict.fromkeys(cited_clauses(query)), MAX_CITED))
    if not asked:
        return set()
    numbers = [_numbers_of(place) for place in places]
    called = called_in(query, places)
    found: set[int] = set()
    for clause in asked:
        within = [place for place, held in enumerate(numbers) if clause in held]
        found.update(of_one_document(within, places, called))
    return found


def _numbers_of(place: CitedPlace) -> set[str]:
    headings = (number[1] for heading in place.headings if (number := _HEADING.match(heading.translate(NO_BREAK))))
    return {*headings, *_LINE.findall(place.text.translate(NO_BREAK))}
