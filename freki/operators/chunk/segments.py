"""Segments of a text, and joining of neighbours."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from freki.schemas.outline import BlockKind


class Size(NamedTuple):
    """Tokens and characters; either may be infinite."""

    tokens: float
    chars: float

    def holds(self, segment: "Segment") -> bool:
        """Return whether the segment fits."""
        return segment.tokens <= self.tokens and segment.end - segment.start <= self.chars

    def reached_by(self, segment: "Segment") -> bool:
        """Return whether the segment reaches the tokens or the characters."""
        return segment.tokens >= self.tokens or segment.end - segment.start >= self.chars


class Minimum(NamedTuple):
    """Tokens and characters that a chunk should have, both of them."""

    tokens: float
    chars: float

    def reached_by(self, segment: "Segment") -> bool:
        """Return whether the segment reaches the tokens and the characters."""
        return segment.tokens >= self.tokens and segment.end - segment.start >= self.chars


class Segment(NamedTuple):
    """A part of the text that becomes a leaf, or part of one."""

    start: int
    end: int
    tokens: int
    kind: BlockKind


def merged(segments: Sequence[Segment]) -> Segment:
    """Return neighbours as one segment of the prevailing kind."""
    if len(segments) == 1:
        return segments[0]
    shares: Counter[BlockKind] = Counter()
    for segment in segments:
        shares[segment.kind] += segment.end - segment.start
    kind = shares.most_common(1)[0][0]
    return Segment(segments[0].start, segments[-1].end, sum(segment.tokens for segment in segments), kind)


def checksums(text: str, segments: Sequence[Segment]) -> list[float]:
    """Return a checksum of the text of each segment, independent of its position."""
    return [crc32(text[segment.start : segment.end].encode("utf-8", "surrogatepass")) for segment in segments]


def join(
    segments: Sequence[Segment],
    *,
    marks: Sequence[float],
    low: Size | Minimum,
    high: Size,
    limit: Size,
    sharp: float = -math.inf,
) -> list[Segment]:
    """Join neighbours until they reach `low`; nothing is joined over `limit`.

    Between `low` and `high` the cut comes after the first segment whose mark is below `sharp`, else after the one with
    the smallest mark. Marks do not depend on position: two versions of a text agree on a cut soon after
    their last difference, and on all later cuts. A group that stays below `low` is joined to the previous one where
    both fit `limit`.
    """
    groups: list[Segment] = []
    first = 0
    while first < len(segments):
        end = _next_cut(segments, marks, first, low, high, limit, sharp)
        group = merged(segments[first:end])
        if groups and not low.reached_by(group):
            both = merged([groups[-1], group])
            if limit.holds(both):
                group = both
                groups.pop()
        groups.append(group)
        first = end
    return groups


def places(segments: Sequence[Segment], groups: Sequence[Segment]) -> Iterator[slice]:
    """Yield for each group that `join` made of the segments which of them it holds."""
    first = 0
    for group in groups:
        end = first
        while end < len(segments) and segments[end].start < group.end:
            end += 1
        yield slice(first, end)
        first = end


def _next_cut(
    segments: Sequence[Segment],
    marks: Sequence[float],
    first: int,
    low: Size | Minimum,
    high: Size,
    limit: Size,
    sharp: float,
) -> int:
    """Return the end of the group that begins at `first`."""
    best = -1
    group = segments[first]
    for i in range(first, len(segments)):
        if i > first:
            group = group._replace(end=segments[i].end, tokens=group.tokens + segments[i].tokens)
            if not limit.holds(group) or (best >= 0 and not high.holds(group)):
                return i if best < 0 else best + 1
        if low.reached_by(group) and (best < 0 or marks[i] < marks[best]):
            best = i
            if marks[i] < sharp:
                return i + 1
    return len(segments)
