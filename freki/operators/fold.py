"""Folding of near-duplicate texts."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

SHINGLE_WORDS = 3
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


class _Reading(NamedTuple):
    """The features of a text that are compared."""

    shingles: frozenset[tuple[str, ...]]
    numbers: Counter[str]


def fold(texts: Sequence[str], *, likeness: float = 1.0) -> list[int]:
    """Return for each text the index of its representative: its own, or that of the first similar one kept before.

    Texts that differ in case and white space only are always similar. Others are if the Jaccard index of their
    three-word shingles is at least `likeness` and they contain the same numbers: often only a date or an amount
    distinguishes two versions of a passage. Kept texts are pairwise dissimilar, so folding is idempotent.
    Raises ValueError if `likeness` is outside 0..1. Source: Broder, SEQUENCES 1997,
    doi:10.1109/SEQUEN.1997.666900 (resemblance). Deviations: the numbers; no sketches, since a query has few texts.
    """
    if not 0 <= likeness <= 1:
        raise ValueError(f"likeness must be in 0..1, got {likeness}")
    plain = [" ".join(text.casefold().split()) for text in texts]
    # At 1 only equal texts are similar: equal sets of shingles may be repeated or reordered.
    readings = [_read(text) for text in plain] if likeness < 1 else []
    stands_for: dict[str, int] = {}
    staying: list[int] = []
    for place, text in enumerate(plain):
        if text in stands_for:
            continue
        like = (kept for kept in staying if readings and _alike(readings[kept], readings[place], likeness))
        stands_for[text] = next(like, place)
        if stands_for[text] == place:
            staying.append(place)
    return [stands_for[text] for text in plain]


def _read(plain: str) -> _Reading:
    words = _WORD.findall(plain)
    count = max(1, len(words) - SHINGLE_WORDS + 1)
    shingles = frozenset(tuple(words[start : start + SHINGLE_WORDS]) for start in range(count))
    return _Reading(shingles, Counter(_NUMBER.findall(plain)))


def _alike(one: _Reading, other: _Reading, likeness: float) -> bool:
    if one.numbers != other.numbers:
        return False
    shared = len(one.shingles & other.shingles)
    return shared >= likeness * (len(one.shingles) + len(other.shingles) - shared)
