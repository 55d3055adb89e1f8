"""The part of a text that is shown where the whole has no room."""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from freki.operators.assemble.layout import GAP
from freki.operators.assemble.units import SentenceEnds, is_row, units
from freki.schemas import ChunkKind, ContextHit

Match = tuple[int, int, Collection[str]]
"""Half-open span of a text in code points, and the terms of the query that it has."""
Fits = Callable[[str], bool]
Span = tuple[int, int]

_LINES, _WORDS = re.compile(r".*\S"), re.compile(r"\S+")


def whole_parts(hit: ContextHit, matches: Sequence[Match], fits: Fits, sentence_ends: SentenceEnds) -> str:
    """Return the sentences, rows and items of a text around its matches that fit, with marks of what is cut.

    They have as many terms of the query as possible, and grow from these to both sides. Without matches they are the
    beginning. Rows of a table keep the header that stands in the same text, if there is room. Empty if nothing fits.
    """
    parts = _parts(hit.text, sentence_ends)
    kept = _grown(hit.text, parts, matches, fits, header=_header(hit, parts))
    return kept or _grown(hit.text, parts, matches, fits)


def lines_or_words(hit: ContextHit, matches: Sequence[Match], fits: Fits, sentence_ends: SentenceEnds) -> str:
    """Return, likewise, lines or words of the sentence, row or item with the most terms of the query."""
    parts = _parts(hit.text, sentence_ends)
    start, end = max(parts, key=lambda part: len(_terms(part, matches)), default=(0, 0))
    spans = ([found.span() for found in pieces.finditer(hit.text, start, end)] for pieces in (_LINES, _WORDS))
    return next(filter(None, (_grown(hit.text, each, matches, fits) for each in spans)), "")


def _parts(text: str, sentence_ends: SentenceEnds) -> list[Span]:
    return [(unit.start, unit.end) for unit in units(text, sentence_ends)]


def _grown(text: str, parts: Sequence[Span], matches: Sequence[Match], fits: Fits, *, header: int = 0) -> str:
    """Return the best window of whole parts; header: number of the first parts that stay above it."""

    def shown(first: int, last: int) -> str:
        start, end = parts[first][0], parts[last][1]
        above = text[: parts[header - 1][1]].rstrip() if 0 < header <= first else ""
        lead = above + (GAP if first > header else "\n") if above else GAP.lstrip() if text[:start].strip() else ""
        return lead + text[start:end].rstrip() + (GAP.rstrip() if text[end:].strip() else "")

    terms = [_terms(part, matches) for part in parts]
    core = _core(terms, lambda first, last: fits(shown(first, last)))
    if core is None:
        return ""
    first, last = core
    sides = deque([(0, 1), (-1, 0)])
    while sides:
        before, after = side = sides.popleft()
        wider = first + before, last + after
        if wider[0] >= 0 and wider[1] < len(parts) and fits(shown(*wider)):
            first, last = wider
            sides.append(side)
    return shown(first, last)


def _core(terms: Sequence[frozenset[str]], fits: Callable[[int, int], bool]) -> Span | None:
    """Return first and last of the parts that fit together and have most terms, the first such ones; None: none fit."""
    best = max(_fitting(terms, fits), key=lambda span: len(_joined(terms, *span)), default=None)
    if best is None:
        return None
    first, last = best
    while first < last and _joined(terms, first, last - 1) == _joined(terms, first, last):
        last -= 1
    while first < last and _joined(terms, first + 1, last) == _joined(terms, first, last):
        first += 1
    return first, last


def _fitting(terms: Sequence[frozenset[str]], fits: Callable[[int, int], bool]) -> Iterator[Span]:
    """Yield the longest span that fits from each part that has terms; from the first part if none has."""
    last = 0
    for first in [place for place, found in enumerate(terms) if found] or range(min(1, len(terms))):
        last = max(last, first)
        while last + 1 < len(terms) and fits(first, last + 1):
            last += 1
        # The mark before it may have taken the room.
        while last > first and not fits(first, last):
            last -= 1
        if fits(first, last):
            yield first, last


def _joined(terms: Sequence[frozenset[str]], first: int, last: int) -> frozenset[str]:
    return frozenset().union(*terms[first : last + 1])


def _terms(part: Span, matches: Sequence[Match]) -> frozenset[str]:
    return frozenset(term for start, end, found in matches if start < part[1] and part[0] < end for term in found)


def _header(hit: ContextHit, parts: Sequence[Span]) -> int:
    """Return how many of the first parts are the header of a table, with what stands before it; 0: it has none here."""
    if hit.kind is not ChunkKind.TABLE or any(map(is_row, hit.overlap.splitlines())):
        return 0
    lines = [hit.text[start:end] for start, end in parts]
    rows = (place for place, line in enumerate(lines, start=1) if is_row(line))
    header = next(rows, 0)
    # The line below it has no letters and digits: |---|---|
    while 0 < header < len(lines) and not any(map(str.isalnum, lines[header])):
        header += 1
    return header
