"""Words that are written otherwise in the texts that were read."""

import re
import unicodedata
from collections.abc import Callable, Mapping

from rapidfuzz.distance import DamerauLevenshtein

LEAST_CHARS = 4
LONG_CHARS = 8
"""From here on two letters may differ; below that one."""
_WORDS = re.compile(r"[^\W\d_]+")
_SPELT_OUT = {"ß": "ss", "ae": "a", "oe": "o", "ue": "u"}


def corrected(question: str, vocabulary: Mapping[str, int], *, is_known: Callable[[str], bool]) -> str:
    """Replace words that are not known by the nearest one of the vocabulary, whose own words are known.

    vocabulary: words as written, with how often they stand in the texts. is_known: of other words, such as those of a
    dictionary. Nearest is what differs by the fewest letters
    (swapped neighbours count once; accents and umlauts not at all), at most 1, or 2 from 8 letters on; then what is
    frequent, then by alphabet. Words of fewer than 4 letters stay. Empty where nothing is replaced.
    Source: Damerau, CACM 1964, doi:10.1145/363958.363994.
    """
    known = {word.casefold() for word in vocabulary}
    folded = [(_folded(word), word, count) for word, count in vocabulary.items() if len(word) >= LEAST_CHARS]

    def nearest(found: re.Match[str]) -> str:
        word = found[0]
        if len(word) < LEAST_CHARS or word.casefold() in known or is_known(word):
            return word
        most = 2 if len(word) >= LONG_CHARS else 1
        asked = _folded(word)
        near = [
            (distance, -count, other)
            for other_folded, other, count in folded
            if (distance := DamerauLevenshtein.distance(asked, other_folded, score_cutoff=most)) <= most
        ]
        return min(near)[2] if near else word

    said = _WORDS.sub(nearest, question)
    return said if said.casefold() != question.casefold() else ""


def _folded(word: str) -> str:
    plain = "".join(each for each in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(each))
    for old, new in _SPELT_OUT.items():
        plain = plain.replace(old, new)
    return plain
