"""Places in documents that a query may cite, and which of their documents it means."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from freki.schemas.citations import PLAIN_SIGNS

MAX_CITED = 32
"""Citations of a query that are looked for; a long letter may have hundreds."""

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


def called_in(query: str, places: Sequence[CitedPlace]) -> list[int]:
    """Return how many words of a query each place's document is called by, in the genitive too, or in short."""
    plain = query.translate(PLAIN_SIGNS)
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


def numbers_through(first: str, last: str) -> list[str]:
    """Return the numbers of a range, both included: of few only the ends are known, or those of letters `2a`."""
    before, _, low = first.rpartition(".")
    other, _, high = last.rpartition(".")
    if before != other or not (low.isdecimal() and high.isdecimal() and int(low) < int(high) <= int(low) + MAX_CITED):
        return [first, last]
    return [f"{before}.{number}" if before else str(number) for number in range(int(low), int(high) + 1)]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORD.findall(text))
