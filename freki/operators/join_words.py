"""Words that a hyphen breaks at the end of a line of plain text."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from freki.schemas.outline import ParsedDocument

_BROKEN = re.compile(
    r"""
    (?<![^\s(\["'„“»«‚‘])
    (?P<before>(?:[^\W\d_]+-)*[^\W\d_]{2,}+)
    (?P<cut>[-\u2010\u00ad]\n[\ \t]*)
    (?P<after>[^\W\d_]{2,}+(?:-[^\W\d_]+)*+)
    # What else follows is no word, as in `foo-` and `bar.baz` below it.
    (?=[)\]"'”“’‘»«.,;:!?…]*(?:\s|\Z))
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_SUSPENDED = {
    *("und", "oder", "bzw", "sowie", "als", "noch", "bis", "wie", "statt", "aber", "and", "or", "to"),
    *("how", "in", "off", "out", "up"),
}
"""What follows a hyphen of its own, as in `Ein- und Ausgabe`, and the ends of foreign words, as in `Know-how`."""
_OF_ADJECTIVES = re.compile(r"(?:.*-)?(?:nicht|deutsch|\w+isch)-\w+", re.IGNORECASE)
_GERMAN = {
    *("der", "die", "das", "dem", "und", "ist", "sind", "nicht", "von", "zu", "mit", "auf", "für", "ein", "eine", "im"),
    *("wird", "werden", "oder"),
}
_LEAST_GERMAN = 0.12
"""Minimum share of these words: about a quarter of German texts, of Danish and Dutch ones up to 6 %."""


def join_words(document: ParsedDocument) -> ParsedDocument:
    """Return the document with words whole that a hyphen breaks at the end of a line; blocks stay what they are.

    Of German, whose other hyphens mostly stand before capitals, all are joined but those with a capital or a number,
    or before `und` and the like. Programs break lines of other languages at hyphens too: there only a word is joined
    that the text has whole elsewhere, or that has a soft hyphen. What the text has with its hyphen elsewhere keeps it.
    """
    cuts = list(_cuts(document.text))
    if not cuts:
        return document
    edges = [0, *(edge for cut in cuts for edge in cut), len(document.text)]
    text = "".join(document.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    ends = [end for _, end in cuts]
    gone = list(accumulate((end - start for start, end in cuts), initial=0))

    def moved(place: int) -> int:
        return place - gone[bisect_right(ends, place)]

    blocks = (
        replace(
            block,
            start=moved(block.start),
            end=moved(block.end),
            seams=tuple(map(moved, block.seams)),
            header_end=moved(block.header_end),
        )
        for block in document.blocks
    )
    return replace(document, text=text, blocks=tuple(blocks), page_starts=tuple(map(moved, document.page_starts)))


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of hyphens and line ends within words, in order."""
    broken = list(_BROKEN.finditer(text))
    words = [word.lower() for word in _WORD.findall(text)] if broken else []
    known = frozenset(words)
    is_german = sum(word in _GERMAN for word in words) >= _LEAST_GERMAN * len(words)
    for found in broken:
        before, after = found.group("before", "after")
        whole, hyphenated = f"{before}{after}".lower(), f"{before}-{after}".lower()
        if not after[0].islower() or not before.rpartition("-")[2][1:].islower():
            continue
        is_soft = found.group("cut").startswith("\u00ad")
        is_word = whole in known or (is_german and _may_be_one(hyphenated, after))
        if is_soft or (is_word and hyphenated not in known):
            yield found.span("cut")


def _may_be_one(hyphenated: str, after: str) -> bool:
    return after.lower() not in _SUSPENDED and not _OF_ADJECTIVES.fullmatch(hyphenated)
