"""What is too long for a chunk is cut at the best places that do."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

from freki.operators.chunk.pieces import Piece, Size, checksums, join
from freki.operators.chunk.sentences import sentence_ends
from freki.schemas.outline import BlockKind

CountTokens = Callable[[Sequence[str]], Sequence[int]]
Edges = Callable[[str, int, int], Iterable[int]]

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_ENDS = re.compile(r"\n+")
_SPACES = re.compile(r"\s+")


def cut(text: str, piece: Piece, seams: Sequence[int], limit: Size, count_tokens: CountTokens) -> list[Piece]:
    """Cut a piece at its seams; what stays too long at blank lines, sentences, lines, words, and then anywhere.

    Code and tables are not cut at sentences. The result fits, covers all that is visible, and is at least half full
    where its parts allow.
    """
    pieces = [piece]
    for edges in _ladder(piece.kind, seams, limit):
        smaller: list[Piece] = []
        for each in pieces:
            smaller += [each] if limit.holds(each) else _cut_at(edges, text, each, limit, count_tokens)
        pieces = smaller
    return pieces


def _ladder(kind: BlockKind, seams: Sequence[int], limit: Size) -> Iterator[Edges]:
    """Yield ways to cut, best first."""
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


def _cut_at(edges: Edges, text: str, piece: Piece, limit: Size, count_tokens: CountTokens) -> list[Piece]:
    """Cut at all edges and join again what fits together."""
    parts = _divided(edges, text, piece, count_tokens)
    if len(parts) == 1:
        return [piece]
    half = Size(limit.tokens / 2, limit.chars / 2)
    groups = join(parts, marks=checksums(text, parts), low=half, high=limit, limit=limit)
    return recounted(text, groups, parts, count_tokens)


def sentences_of(text: str, piece: Piece, count_tokens: CountTokens) -> list[Piece]:
    """Give the sentences of a piece, which also end at blank lines."""
    paragraphs = _divided(partial(_matches, _BLANK_LINES), text, piece, count_tokens)
    return [each for part in paragraphs for each in _divided(sentence_ends, text, part, count_tokens)]


def _divided(edges: Edges, text: str, piece: Piece, count_tokens: CountTokens) -> list[Piece]:
    """Cut at all edges; white space between falls away."""
    cuts = [piece.start, *edges(text, piece.start, piece.end), piece.end]
    spans = [_trimmed(text, start, end, piece.kind) for start, end in pairwise(cuts)]
    spans = [(start, end) for start, end in spans if start < end]
    if len(spans) == 1:
        return [piece]
    counts = count_tokens([text[start:end] for start, end in spans])
    return [Piece(start, end, tokens, piece.kind) for (start, end), tokens in zip(spans, counts, strict=True)]


def recounted(text: str, joined: list[Piece], parts: Sequence[Piece], count_tokens: CountTokens) -> list[Piece]:
    """Count joined pieces again if any parts touch: within a word, tokens of parts are not those of the whole."""
    if all(one.end < other.start for one, other in pairwise(parts)):
        return joined
    counts = count_tokens([text[piece.start : piece.end] for piece in joined])
    return [piece._replace(tokens=tokens) for piece, tokens in zip(joined, counts, strict=True)]


def _trimmed(text: str, start: int, end: int, kind: BlockKind) -> tuple[int, int]:
    """Shrink a span to what is visible; the indentation of its first line stays, but in prose."""
    part = text[start:end]
    visible = len(part) - len(part.lstrip())
    if kind is not BlockKind.PROSE and visible < len(part):
        visible = part.rfind("\n", 0, visible) + 1
    return start + visible, start + max(len(part.rstrip()), visible)
