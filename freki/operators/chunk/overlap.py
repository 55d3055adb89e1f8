"""The end of the text before a chunk."""

import re

from freki.operators.chunk.cut import CountTokens
from freki.operators.chunk.limits import ChunkLimits

_WORD = re.compile(r"\S+\s*")


class Overlaps:
    """The overlaps of a document's chunks."""

    def __init__(self, text: str, limits: ChunkLimits, count_tokens: CountTokens) -> None:
        self._text = text
        self._chars = limits.overlap_chars
        self._tokens = limits.overlap_tokens
        self._count = count_tokens

    def before(self, start: int) -> str:
        """Return the whole words before `start` that fit the characters, and the tokens where these are limited."""
        first = max(0, start - self._chars)
        before = self._text[first:start]
        if first and not self._text[first - 1].isspace() and not before[:1].isspace():
            before = before[len(before.split(maxsplit=1)[0]) :] if before else ""
        return self._within_tokens(before.strip())

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
