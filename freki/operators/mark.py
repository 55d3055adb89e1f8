"""Places of the words of a question in a text."""

from collections.abc import Collection, Iterable
from typing import NamedTuple


class Mark(NamedTuple):
    """Half-open span of a text in Unicode code points."""

    start: int
    end: int


def mark(places: Iterable[tuple[int, int, Collection[str]]], terms: Collection[str]) -> list[Mark]:
    """Return the spans that share a term with the question, in order; spans that touch are one.

    places: start, end and terms of each word, in order.
    """
    marks: list[Mark] = []
    for start, end, found in places:
        if set(terms).isdisjoint(found):
            continue
        if marks and start <= marks[-1].end:
            marks[-1] = Mark(marks[-1].start, max(end, marks[-1].end))
        else:
            marks.append(Mark(start, end))
    return marks
