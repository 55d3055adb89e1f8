"""Windows for late chunking: text that is encoded as a whole, so that vectors of chunks reflect its context."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from freki.operators.chunk.cut import CountTokens
from freki.operators.chunk.segments import Segment, Size, checksums, join
from freki.schemas import Chunk, ChunkKind
from freki.schemas.outline import BlockKind

CORE = 0.75
"""Share of a window whose chunks take their vectors from it; the rest is overlap with other windows."""


class Windowed(NamedTuple):
    """Chunks assigned to windows, and the windows."""

    chunks: list[Chunk]
    windows: list[str]


def late_windows(text: str, chunks: Sequence[Chunk], *, count_tokens: CountTokens, max_tokens: int) -> Windowed:
    """Assign each leaf of a document to a window of its text.

    A document that fits is one window. Otherwise windows overlap: the leaves of a window take about three quarters of
    `max_tokens`, and the rest is surrounding text; a window may be somewhat longer than `max_tokens`. Borders depend
    on the surrounding text only, so that an edit changes only the windows that contain it. Windows include headings. A
    SUMMARY has no window.

    count_tokens: counts tokens of each text; assumed additive over parts that end at white space.
    Raises ValueError if `max_tokens` is below 8.
    Source: Günther et al., 2024, arXiv:2409.04701 (late chunking). Deviation: window borders are content-defined
    instead of multiples of a stride.
    """
    if max_tokens < 8:  # noqa: PLR2004 - a window needs some words
        raise ValueError(f"max_tokens must be at least 8, got {max_tokens}")
    leaves = [chunk for chunk in chunks if chunk.kind is not ChunkKind.SUMMARY]
    spans = [_span(text, segment, max_tokens) for segment in _cores(text, leaves, count_tokens, max_tokens)]
    place = 0
    placed: dict[int, Chunk] = {}
    for leaf in leaves:
        while leaf.end > spans[place].core_end:
            place += 1
        placed[leaf.ordinal] = replace(leaf, window=place, window_start=leaf.start - spans[place].start)
    return Windowed(
        [placed.get(chunk.ordinal, chunk) for chunk in chunks], [text[span.start : span.end] for span in spans]
    )


class _Span(NamedTuple):
    """A window in the text."""

    start: int
    core_end: int
    end: int


def _cores(text: str, leaves: Sequence[Chunk], count_tokens: CountTokens, max_tokens: int) -> list[Segment]:
    """Join leaves, each with the headings before it, to cores of three quarters of a window, or one if all fit."""
    edges = [0, *(leaf.end for leaf in leaves)]
    counts = count_tokens([text[start:end] for start, end in pairwise(edges)])
    segments = [
        Segment(start, end, tokens, BlockKind.PROSE)
        for (start, end), tokens in zip(pairwise(edges), counts, strict=True)
    ]
    anything = float("inf")
    most = max_tokens if sum(counts) <= max_tokens else CORE * max_tokens
    low, high = Size(most / 2, anything), Size(most, anything)
    return join(segments, marks=checksums(text, segments), low=low, high=high, limit=high)


def _span(text: str, core: Segment, max_tokens: int) -> _Span:
    """Extend a core on both sides by whole words, up to the characters that probably fit."""
    characters = (core.end - core.start) / max(1, core.tokens)
    room = int(max(0, max_tokens - core.tokens) / 2 * characters)
    start, end = max(0, core.start - room), min(len(text), core.end + room)
    while 0 < start < core.start and not text[start - 1].isspace():
        start += 1
    while core.end < end < len(text) and not text[end].isspace():
        end -= 1
    return _Span(start, core.end, end)
