"""Spelling correction by the vocabulary of retrieved texts."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache

from rapidfuzz.distance import DamerauLevenshtein

LEAST_CHARS = 4
LONG_CHARS = 8
"""Minimum characters of a word for two edits; shorter words allow one."""
_WORDS = re.compile(r"[^\W\d_]+")
_SPELT_OUT = {"ß": "ss", "ae": "a", "oe": "o", "ue": "u"}


def corrected(query: str, vocabulary: Callable[[], Mapping[str, int]], *, is_known: Callable[[str], bool]) -> str:
    """Replace unknown words by the nearest word of the vocabulary.

    vocabulary: returns known words as written, with their frequency; called once, if a word is unknown to `is_known`.
    is_known: whether a word is known otherwise, such as by a dictionary. Nearest is the word of minimum edit distance
    (transpositions count once, accents and umlauts not at all), at most 1, or 2 from 8 letters on; ties by frequency,
    then alphabetically. Words of fewer than 4 letters are kept, and so are those that negate a known one:
    `unbefristet` is no misspelt `befristet`. Empty where nothing is replaced.
    Source: Damerau, CACM 1964, doi:10.1145/363958.363994.
    """
    known = cache(vocabulary)

    @cache
    def casefolded() -> set[str]:
        return {word.casefold() for word in known()}

    @cache
    def folded() -> list[tuple[str, str, int]]:
        return [(_folded(word), word, count) for word, count in known().items() if len(word) >= LEAST_CHARS]

    def nearest(found: re.Match[str]) -> str:
        word = found[0]
        if len(word) < LEAST_CHARS or is_known(word) or word.casefold() in casefolded():
            return word
        most = 2 if len(word) >= LONG_CHARS else 1
        asked = _folded(word)
        near = [
            (distance, -count, other)
            for other_folded, other, count in folded()
            if (distance := DamerauLevenshtein.distance(asked, other_folded, score_cutoff=most)) <= most
            and asked != f"un{other_folded}"
        ]
        return min(near)[2] if near else word

    said = _WORDS.sub(nearest, query)
    return said if said.casefold() != query.casefold() else ""


def _folded(word: str) -> str:
    plain = word.casefold()
    if not plain.isascii():
        plain = "".join(each for each in unicodedata.normalize("NFD", plain) if not unicodedata.combining(each))
    for old, new in _SPELT_OUT.items():
        plain = plain.replace(old, new)
    return plain
