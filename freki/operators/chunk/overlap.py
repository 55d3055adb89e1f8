"""The end of the text before a chunk, within its section."""

import re
from bisect import bisect_right

from freki.operators.chunk.cut import CountTokens
from freki.operators.chunk.limits import ChunkLimits
from freki.operators.chunk.sections import DocumentSection

_WORD = re.compile(r"\S+\s*")


class Overlaps:
    """The overlaps of a document's chunks."""

    def __init__(self, text: str, root: DocumentSection, limits: ChunkLimits, count_tokens: CountTokens) -> None:
        self._text = text
        self._headings = [section.heading for section in root.walk() if section.heading]
        self._starts = [heading.start for heading in self._headings]
        self._chars = limits.overlap_chars
        self._tokens = limits.overlap_tokens
        self._count = count_tokens

    def before(self, start: int) -> str:
        """Return the whole words before `start` that fit the characters, and the tokens where these are limited.

        None are of the heading or of another section; a chunk of joined sections begins with the heading of the first.
        """
        first = max(self._least(start), start - self._chars)
        before = self._text[first:start]
        if first and not self._text[first - 1].isspace() and not before[:1].isspace():
            before = before[len(before.split(maxsplit=1)[0]) :] if before else ""
        return self._within_tokens(before.strip())

    def _least(self, start: int) -> int:
        """Return where the text begins that stands below the same heading as the text at `start`."""
        place = bisect_right(self._starts, start) - 1
        if place < 0:
            return 0
        heading = self._headings[place]
        return heading.end if heading.end <= start else heading.start

    def _within_tokens(self, before: str) -> str:
        if self._tokens is None or not before:
            return before
        words = [(match.start(), match.group().rstrip()) for match in _WORD.finditer(before)]
        room, first = self._tokens, len(before)
        for (at, _), tokens in zip(reversed(words), reversed(self._count([word for _, word in words])), strict=True):
            room -= tokens
            if room < 0:
                break
            first = at
        return before[first:]
