"""Words in a row that two texts share, and that a text repeats."""

import re

_WORD = re.compile(r"\w+")
_ROW = 3
"""Words in a row whose repetition counts."""


def longest_run(text: str, other: str) -> int:
    """Return how many words in a row of a text stand in another one, without case and punctuation."""
    words = _words(text)
    held = f" {' '.join(_words(other))} "
    longest = 0
    for start in range(len(words)):
        while f" {' '.join(words[start : start + longest + 1])} " in held and start + longest < len(words):
            longest += 1
    return longest


def copied_share(text: str, other: str) -> float:
    """Return the share of a text's words in its longest run that stands in the other one; 0 without words."""
    return longest_run(text, other) / max(1, len(_words(text)))


def repeated_share(text: str) -> float:
    """Return the share of the rows of three words that a text had said before; 0 for one of fewer words."""
    words = _words(text)
    rows = [tuple(words[start : start + _ROW]) for start in range(len(words) - _ROW + 1)]
    return 1 - len(set(rows)) / len(rows) if rows else 0.0


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
