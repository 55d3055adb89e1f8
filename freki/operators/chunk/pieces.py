"""Parts of a text, and how neighbours become one."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from freki.schemas.outline import BlockKind


class Size(NamedTuple):
    """Tokens and characters; either may be infinite."""

    tokens: float
    chars: float

    def holds(self, piece: "Piece") -> bool:
        """Say whether the piece is not larger."""
        return piece.tokens <= self.tokens and piece.end - piece.start <= self.chars

    def reached_by(self, piece: "Piece") -> bool:
        """Say whether the piece has as many tokens, or as many characters."""
        return piece.tokens >= self.tokens or piece.end - piece.start >= self.chars


class Piece(NamedTuple):
    """Part of the text that may become a leaf, or of one."""

    start: int
    end: int
    tokens: int
    kind: BlockKind


def merged(pieces: Sequence[Piece]) -> Piece:
    """Return neighbours as one piece of the kind that fills most of it."""
    if len(pieces) == 1:
        return pieces[0]
    shares: Counter[BlockKind] = Counter()
    for piece in pieces:
        shares[piece.kind] += piece.end - piece.start
    kind = shares.most_common(1)[0][0]
    return Piece(pieces[0].start, pieces[-1].end, sum(piece.tokens for piece in pieces), kind)


def checksums(text: str, pieces: Sequence[Piece]) -> list[float]:
    """Mark each piece by its text: two versions of a text have the same marks wherever they do not differ."""
    return [crc32(text[piece.start : piece.end].encode("utf-8", "surrogatepass")) for piece in pieces]


def join(
    pieces: Sequence[Piece],
    *,
    marks: Sequence[float],
    low: Size,
    high: Size,
    limit: Size,
    sharp: float = -math.inf,
) -> list[Piece]:
    """Join neighbours until they reach `low`; nothing is joined over `limit`.

    Between `low` and `high` the cut comes after the first piece whose mark is below `sharp`, else after the one with
    the smallest mark: as marks tell nothing of where a piece stands, two versions of a text that differ somewhere soon
    agree on a cut after that, and then on all later ones. A group that stays below `low` is joined to the one before
    where that fits.
    """
    groups: list[Piece] = []
    first = 0
    while first < len(pieces):
        end = _next_cut(pieces, marks, first, low, high, limit, sharp)
        group = merged(pieces[first:end])
        if groups and not low.reached_by(group):
            both = merged([groups[-1], group])
            if limit.holds(both):
                group = both
                groups.pop()
        groups.append(group)
        first = end
    return groups


def _next_cut(
    pieces: Sequence[Piece], marks: Sequence[float], first: int, low: Size, high: Size, limit: Size, sharp: float
) -> int:
    """Return the end of the group that begins at `first`."""
    best = -1
    group = pieces[first]
    for i in range(first, len(pieces)):
        if i > first:
            group = group._replace(end=pieces[i].end, tokens=group.tokens + pieces[i].tokens)
            if not (limit if best < 0 else high).holds(group):
                return i if best < 0 else best + 1
        if low.reached_by(group) and (best < 0 or marks[i] < marks[best]):
            best = i
            if marks[i] < sharp:
                return i + 1
    return len(pieces)
