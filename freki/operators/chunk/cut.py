"""Splits oversized text at the best available boundary."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

from freki.operators.chunk.segments import Segment, Size, checksums, join
from freki.operators.chunk.sentences import sentence_ends
from freki.schemas.outline import BlockKind

CountTokens = Callable[[Sequence[str]], Sequence[int]]
Edges = Callable[[str, int, int], Iterable[int]]

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_ENDS = re.compile(r"\n+")
_SPACES = re.compile(r"\s+")


def cut(text: str, segment: Segment, seams: Sequence[int], limit: Size, count_tokens: CountTokens) -> list[Segment]:
    """Split a segment at its seams, and oversized parts at blank lines, sentences, lines, words, then anywhere.

    Code and tables are not split at sentences. The results fit the limit, cover all visible text, and are at least half
    full where their parts allow.
    """
    segments = [segment]
    for edges in _ladder(segment.kind, seams, limit):
        smaller: list[Segment] = []
        for each in segments:
            smaller += [each] if limit.holds(each) else _cut_at(edges, text, each, limit, count_tokens)
        segments = smaller
    return segments


def _ladder(kind: BlockKind, seams: Sequence[int], limit: Size) -> Iterator[Edges]:
    """Yield kinds of boundaries, best first."""
    yield lambda _text, start, end: (seam for seam in seams if start < seam < end)
    yield partial(_matches, _BLANK_LINES)
    if kind in {BlockKind.PROSE, BlockKind.LIST}:
        yield sentence_ends
    yield partial(_matches, _LINE_ENDS)
    yield partial(_matches, _SPACES)
    size = int(limit.chars)
    while size > 1:
        yield partial(_steps, size)
        size //= 4
    yield partial(_steps, 1)


def _matches(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[int]:
    return (match.end() for match in pattern.finditer(text, start, end))


def _steps(size: int, _text: str, start: int, end: int) -> range:
    return range(start + size, end, size)


def _cut_at(edges: Edges, text: str, segment: Segment, limit: Size, count_tokens: CountTokens) -> list[Segment]:
    """Split at all edges, and join neighbours that fit together."""
    parts = _divided(edges, text, segment, count_tokens)
    if len(parts) == 1:
        return [segment]
    half = Size(limit.tokens / 2, limit.chars / 2)
    groups = join(parts, marks=checksums(text, parts), low=half, high=limit, limit=limit)
    return recounted(text, groups, parts, count_tokens)


def sentences_of(text: str, segment: Segment, count_tokens: CountTokens) -> list[Segment]:
    """Return the sentences of a segment; blank lines also end sentences."""
    paragraphs = _divided(partial(_matches, _BLANK_LINES), text, segment, count_tokens)
    return [each for part in paragraphs for each in _divided(sentence_ends, text, part, count_tokens)]


def _divided(edges: Edges, text: str, segment: Segment, count_tokens: CountTokens) -> list[Segment]:
    """Split at all edges, without the white space between."""
    cuts = [segment.start, *edges(text, segment.start, segment.end), segment.end]
    spans = [_trimmed(text, start, end, segment.kind) for start, end in pairwise(cuts)]
    spans = [(start, end) for start, end in spans if start < end]
    if len(spans) == 1:
        return [segment]
    counts = count_tokens([text[start:end] for start, end in spans])
    return [Segment(start, end, tokens, segment.kind) for (start, end), tokens in zip(spans, counts, strict=True)]


def recounted(text: str, joined: list[Segment], parts: Sequence[Segment], count_tokens: CountTokens) -> list[Segment]:
    """Recount tokens of joined segments if any parts are adjacent: tokens are not additive within a word."""
    if all(one.end < other.start for one, other in pairwise(parts)):
        return joined
    counts = count_tokens([text[segment.start : segment.end] for segment in joined])
    return [segment._replace(tokens=tokens) for segment, tokens in zip(joined, counts, strict=True)]


def _trimmed(text: str, start: int, end: int, kind: BlockKind) -> tuple[int, int]:
    """Shrink a span to its visible text, keeping the indentation of its first line except in prose."""
    part = text[start:end]
    visible = len(part) - len(part.lstrip())
    if kind is not BlockKind.PROSE and visible < len(part):
        visible = part.rfind("\n", 0, visible) + 1
    return start + visible, start + max(len(part.rstrip()), visible)
