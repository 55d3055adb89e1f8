"""The leaves of each section."""

import math
import re
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
_SENTENCE_KINDS = {BlockKind.PROSE, BlockKind.LIST}
_SENTENCE_ENDS = (".", "!", "?", "…", "。")
_UNFINISHED = re.compile(r"(?:[,;:]|\b(?:und|oder|sowie|and|or))\Z")
_EMPHASIS = "*_"
_LONGEST_END = 16
"""Characters at the end of a paragraph that tell whether it goes on."""
_LONGEST_TITLE = 120
"""In characters."""

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
        # The first items are not understood without their introduction, nor that without any.
        is_introduced = parts and _introduces(text, parts[-1], segment, limit)
        whole = merged([parts.pop(), segment]) if is_introduced else segment
        most = Size(limit.tokens, limit.chars * WHOLE) if block.kind in _WHOLE_KINDS else limit
        parts += [whole] if most.holds(whole) else cut(text, whole, block.seams, limit, rules.count_tokens)
    united = _united(text, parts, limit)
    joined = join(united, marks=checksums(text, united), low=rules.least, high=rules.high, limit=limit)
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


def _united(text: str, segments: Sequence[Segment], limit: Size) -> list[Segment]:
    """Join what belongs together: a sentence of several paragraphs, a title or introduction and what follows it.

    What exceeds the limit is parted where its text decides, into parts that are at least half full if they can be.
    """
    half = Size(limit.tokens / 2, limit.chars / 2)
    united: list[Segment] = []
    first = 0
    for last, (segment, following) in enumerate(zip(segments, [*segments[1:], None], strict=True)):
        if following and _leads_to(text, segment, following):
            continue
        run = segments[first : last + 1]
        united += join(run, marks=checksums(text, run), low=half, high=limit, limit=limit)
        first = last + 1
    return united


def _leads_to(text: str, segment: Segment, following: Segment) -> bool:
    """Return whether a segment is not complete without the one after it."""
    if segment.kind is BlockKind.HEADING:
        return True
    end = text[max(segment.start, segment.end - _LONGEST_END) : segment.end].rstrip(_EMPHASIS)
    ends = end.endswith(_SENTENCE_ENDS)
    if segment.kind is BlockKind.PROSE and following.kind in _WHOLE_KINDS:
        return not ends
    if {segment.kind, following.kind} - _SENTENCE_KINDS:
        return False
    goes_on = _UNFINISHED.search(end) or (text[following.start].islower() and not ends)
    return bool(goes_on) or (_is_title(text, segment) and not _is_title(text, following))


def _introduces(text: str, segment: Segment, following: Segment, limit: Size) -> bool:
    """Return whether a segment leads to a list and is small enough to stand in one chunk with some of it."""
    if segment.kind is not BlockKind.PROSE or following.kind is not BlockKind.LIST:
        return False
    return Size(limit.tokens / 2, limit.chars / 2).holds(segment) and _leads_to(text, segment, following)


def _is_title(text: str, segment: Segment) -> bool:
    """Return whether a paragraph is a short line without a full stop, such as a question in bold."""
    line = text[segment.start : segment.end].rstrip(_EMPHASIS) if segment.end - segment.start <= _LONGEST_TITLE else ""
    return segment.kind is BlockKind.PROSE and bool(line) and "\n" not in line and not line.endswith((".", "…", "。"))
