"""The leaves of each section."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from freki.operators.chunk.cut import CountTokens, cut, recounted, sentences_of
from freki.operators.chunk.sections import DocumentSection
from freki.operators.chunk.segments import Minimum, Segment, Size, checksums, join, merged
from freki.schemas.outline import Block, BlockKind

WHOLE = 1.5
"""Characters of a list, table or code that stays whole, relative to the maximum; tokens never exceed theirs."""
_WHOLE_KINDS = {BlockKind.LIST, BlockKind.TABLE, BlockKind.CODE}
_SENTENCE_ENDS = ".!?…。"

Similarities = Callable[[Sequence[str]], Sequence[float]]
"""Returns the similarity of each text but the last to the next one, -1..1."""


class Semantics(NamedTuple):
    """Parameters for splitting prose by similarity."""

    similarities: Similarities
    least: float | None = None
    """Minimum similarity of joined neighbours."""
    percentile: float | None = None
    """Neighbours are parted whose distance is above this percentile of the distances in their section, 0..100."""

    def sharp(self, alike: Sequence[float]) -> float:
        """Return the similarity below which neighbours are parted."""
        if self.percentile is None:
            return -math.inf if self.least is None else self.least
        return float(np.percentile(alike, 100 - self.percentile)) if alike else -math.inf


class Rules(NamedTuple):
    """Parameters of leaves."""

    least: Minimum
    limit: Size
    count_tokens: CountTokens
    semantics: Semantics | None

    @property
    def high(self) -> Size:
        """Size up to which paragraphs are joined although each is large enough."""
        return Size(2 * self.least.tokens, max(self.limit.chars, 2 * self.least.chars))


def make_leaves(text: str, root: DocumentSection, rules: Rules) -> None:
    """Set the leaves of each section, from its own body."""
    sections = [section for section in root.walk() if section.body]
    blocks = [text[block.start : block.end] for section in sections for block in section.body]
    counts = iter(rules.count_tokens(blocks))
    for section in sections:
        segments = [Segment(block.start, block.end, next(counts), block.kind) for block in section.body]
        body = merged(segments)
        section.leaves = [body] if rules.limit.holds(body) else _leaves(text, section.body, segments, rules)


def _leaves(text: str, blocks: Sequence[Block], segments: Sequence[Segment], rules: Rules) -> list[Segment]:
    if rules.semantics and all(segment.kind is BlockKind.PROSE for segment in segments):
        return _by_similarity(text, segments, rules, rules.semantics)
    limit = rules.limit
    parts: list[Segment] = []
    for block, segment in zip(blocks, segments, strict=True):
        most = Size(limit.tokens, limit.chars * WHOLE) if segment.kind in _WHOLE_KINDS else limit
        parts += [segment] if most.holds(segment) else cut(text, segment, block.seams, limit, rules.count_tokens)
    introduced = _introduced(text, parts, limit)
    joined = join(introduced, marks=checksums(text, introduced), low=rules.least, high=rules.high, limit=limit)
    return recounted(text, joined, parts, rules.count_tokens)


def _by_similarity(text: str, segments: Sequence[Segment], rules: Rules, semantics: Semantics) -> list[Segment]:
    """Join sentences while they are similar; if all are, split at the least similar neighbours."""
    limit, count_tokens = rules.limit, rules.count_tokens
    sentences = [
        part
        for segment in segments
        for sentence in sentences_of(text, segment, count_tokens)
        for part in ([sentence] if limit.holds(sentence) else cut(text, sentence, (), limit, count_tokens))
    ]
    alike = list(semantics.similarities([text[each.start : each.end] for each in sentences]))
    sharp = semantics.sharp(alike)
    joined = join(sentences, marks=[*alike, 1.0], low=rules.least, high=limit, limit=limit, sharp=sharp)
    return recounted(text, joined, sentences, count_tokens)


def _introduced(text: str, segments: Sequence[Segment], limit: Size) -> list[Segment]:
    """Join a paragraph that does not end like a sentence with the list, table or code after it."""
    joined: list[Segment] = []
    for segment in segments:
        both = merged([joined[-1], segment]) if joined and _introduces(text, joined[-1], segment) else None
        if both and limit.holds(both):
            joined[-1] = both
        else:
            joined.append(segment)
    return joined


def _introduces(text: str, segment: Segment, following: Segment) -> bool:
    if segment.kind is BlockKind.HEADING:
        return True
    return (
        segment.kind is BlockKind.PROSE
        and following.kind in _WHOLE_KINDS
        and text[segment.end - 1] not in _SENTENCE_ENDS
    )
