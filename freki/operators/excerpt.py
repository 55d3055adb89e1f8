"""Snippets of a text around matched terms."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from freki.schemas import Snippet

_SPACE = re.compile(r"\s+")


class Match(NamedTuple):
    """A span of a text that matches terms of the query."""

    start: int
    end: int
    """Half-open span in code points."""
    terms: frozenset[str]


def excerpt(text: str, matches: Sequence[Match], *, max_characters: int = 240, most: int = 3) -> tuple[Snippet, ...]:
    """Return up to `most` snippets of at most `max_characters` each, which together show many distinct terms.

    Windows are chosen greedily by the number of new terms, ties by position, until none adds a term. Each is extended
    around its matches as far as it fits, to word boundaries. Without matches the beginning is shown; a text that fits
    is shown whole; one without visible characters gives none. In reading order, disjoint.
    matches: in reading order. Raises ValueError unless both limits are at least 1.
    """
    if max_characters < 1 or most < 1:
        raise ValueError(f"max_characters and most must be at least 1, got {max_characters} and {most}")
    whole = (0, len(text))
    if len(text) <= max_characters or not matches:
        return _snippets(text, [_widened(text, (0, 0), whole, max_characters)])
    chosen: list[tuple[int, int]] = []
    shown: set[str] = set()
    while len(chosen) < most:
        windows = [window for window in _windows(matches, max_characters) if not _meets(window, chosen)]
        window = max(windows, key=lambda window: len(window.terms - shown), default=None)
        if window is None or not window.terms - shown:
            break
        free = (
            max((end for _, end in chosen if end <= window.start), default=0),
            min((start for start, _ in chosen if start >= window.end), default=len(text)),
        )
        span = _widened(text, (window.start, window.end), free, max_characters)
        chosen.append(span)
        shown.update(
            *(match.terms for match in matches if span[0] <= match.start and match.end <= span[1]), window.terms
        )
    return _snippets(text, sorted(chosen))


def _windows(matches: Sequence[Match], room: int) -> list[Match]:
    """Return, for each match, the matches from it on that fit the room; a longer match is cut."""
    windows = []
    for place, first in enumerate(matches):
        together = [match for match in matches[place : place + room] if match.end <= first.start + room]
        end = max((match.end for match in together), default=first.start + room)
        windows.append(Match(first.start, end, first.terms.union(*(match.terms for match in together))))
    return windows


def _meets(window: Match, spans: Sequence[tuple[int, int]]) -> bool:
    return any(window.start < end and start < window.end for start, end in spans)


def _widened(text: str, core: tuple[int, int], free: tuple[int, int], room: int) -> tuple[int, int]:
    """Extend the core on both sides within the free span, up to the room, to word boundaries."""
    start = max(free[0], core[0] - (room - (core[1] - core[0])) // 2)
    end = min(free[1], start + room)
    start = max(free[0], end - room)
    if start > free[0] and (space := _SPACE.search(text, start - 1, core[0])):
        start = space.end()
    if end < free[1]:
        end = max((space.start() for space in _SPACE.finditer(text, core[1], end + 1) if space.start()), default=end)
    return start, end


def _snippets(text: str, spans: Sequence[tuple[int, int]]) -> tuple[Snippet, ...]:
    """Return the snippets of spans, without white space at their ends."""
    snippets = []
    for begin, stop in spans:
        shown = text[begin:stop].strip()
        if shown:
            start = begin + text[begin:stop].index(shown)
            snippets.append(Snippet(start=start, end=start + len(shown), text=shown))
    return tuple(snippets)
