"""What of each section becomes a leaf."""

from collections.abc import Sequence

from freki.operators.chunk.cut import CountTokens, cut, recounted
from freki.operators.chunk.pieces import Piece, Size, join, merged
from freki.operators.chunk.sections import Section
from freki.schemas.outline import Block, BlockKind

# 384 of 256 tokens: with its context the chunk still fits a model of 512.
WHOLE = 1.5
_WHOLE_KINDS = {BlockKind.LIST, BlockKind.TABLE, BlockKind.CODE}
_SENTENCE_ENDS = ".!?…。"


def make_leaves(text: str, root: Section, *, min_tokens: int, limit: Size, count_tokens: CountTokens) -> None:
    """Give each section the leaves of its own body."""
    sections = [section for section in root.walk() if section.body]
    counts = iter(count_tokens([text[block.start : block.end] for section in sections for block in section.body]))
    for section in sections:
        pieces = [Piece(block.start, block.end, next(counts), block.kind) for block in section.body]
        body = merged(pieces)
        section.leaves = (
            [body] if limit.holds(body) else _leaves(text, section.body, pieces, min_tokens, limit, count_tokens)
        )


def _leaves(  # noqa: PLR0913, PLR0917 - private, called once
    text: str,
    blocks: Sequence[Block],
    pieces: Sequence[Piece],
    min_tokens: int,
    limit: Size,
    count_tokens: CountTokens,
) -> list[Piece]:
    parts: list[Piece] = []
    for block, piece in zip(blocks, pieces, strict=True):
        most = Size(limit.tokens * WHOLE, limit.chars * WHOLE) if piece.kind in _WHOLE_KINDS else limit
        parts += [piece] if most.holds(piece) else cut(text, piece, block.seams, limit, count_tokens)
    low, high = Size(min_tokens, float("inf")), Size(2 * min_tokens, limit.chars)
    joined = join(text, _introduced(text, parts, limit), low=low, high=high, limit=limit)
    return recounted(text, joined, parts, count_tokens)


def _introduced(text: str, pieces: Sequence[Piece], limit: Size) -> list[Piece]:
    """Join a paragraph that does not end like a sentence with the list, table or code after it."""
    joined: list[Piece] = []
    for piece in pieces:
        both = merged([joined[-1], piece]) if joined and _introduces(text, joined[-1], piece) else None
        if both and limit.holds(both):
            joined[-1] = both
        else:
            joined.append(piece)
    return joined


def _introduces(text: str, piece: Piece, following: Piece) -> bool:
    if piece.kind is BlockKind.HEADING:
        return True
    return (
        piece.kind is BlockKind.PROSE and following.kind in _WHOLE_KINDS and text[piece.end - 1] not in _SENTENCE_ENDS
    )
