"""Units of text that are not divided: sentences, table rows and list items."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

SentenceEnds = Callable[[str, int, int], Iterable[int]]
"""Yields the offsets between start and end at which a sentence begins."""

LONGEST_BREAK = 4
"""Maximum white space between two blocks; longer white space stands for missing text."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ROW = re.compile(r"\s*\||[^\n]*(?:\t| \|\s)")
_ITEM = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)]|[a-z]{1,2}\))\s")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BLANK = re.compile(r"\s*")
_LINE_END = re.compile(r"[^\S\n]*\n?")


class Unit(NamedTuple):
    """A part of a text that is shown as a whole."""

    start: int
    end: int
    """End, including following white space unless it stands for missing text."""
    text: str


def units(text: str, sentence_ends: SentenceEnds) -> Iterator[Unit]:
    """Yield the units of a text in order, without blank lines before them.

    An item includes following indented lines. Fenced code is one unit.
    """
    for start, end, prose in _blocks(text):
        cuts = (cut for cut in sentence_ends(text, start, end) if start < cut < end) if prose else ()
        for first, last in pairwise([start, *cuts, end]):
            part = text[first:last].rstrip()
            if part.strip():
                yield _unit(text, first, first + len(part))


def is_row(line: str) -> bool:
    """Return whether a line looks like a row of a table."""
    return bool(_ROW.match(line))


def _unit(text: str, start: int, visible: int) -> Unit:
    end = _ended(_BLANK, text, visible)
    if end - visible <= LONGEST_BREAK:
        return Unit(start, end, text[start:end])
    # A line may be padded to the length of the text that it replaces.
    return Unit(start, _ended(_LINE_END, text, visible), f"{text[start:visible]}\n")


def _ended(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of paragraphs, rows, items and code, and whether it is a paragraph."""
    start, end, prose, fenced = 0, 0, True, False
    for line in _LINE.finditer(text):
        fence = bool(_FENCE.match(line[0]))
        alone = fence or is_row(line[0]) or bool(_ITEM.match(line[0]))
        blank = not line[0].strip()
        goes_on = fenced or (start < end and not alone and not blank and (prose or line[0][0].isspace()))
        if not goes_on:
            if start < end:
                yield start, end, prose
            start, prose = line.end() if blank else line.start(), not alone
        end = line.end()
        fenced ^= fence
        if not fenced and _is_padded(line[0]) and start < end:
            yield start, end, prose
            start, prose = end, True
    if start < end:
        yield start, end, prose


def _is_padded(line: str) -> bool:
    return len(line) - len(line.rstrip()) > LONGEST_BREAK
