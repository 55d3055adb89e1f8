"""Questions shortened to keyword queries."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_WORD = re.compile(r"\w[\w-]*")


def document_frequencies(texts: Iterable[str]) -> Counter[str]:
    """Return the number of texts that contain each word, ignoring case."""
    return Counter(word for text in texts for word in {found.casefold() for found in _WORD.findall(text)})


def shorten(text: str, frequencies: Mapping[str, int], *, words: int = 3) -> str:
    """Return the rarest words of a text that occur in any document, in their order; empty where there is none.

    Ties fall to the longer word, then to the first. Words that occur nowhere are left out: they may be misspelt. Raises
    ValueError if `words` is below 1.
    """
    if words < 1:
        raise ValueError(f"words must be at least 1, got {words}")
    places = {word.casefold(): place for place, word in reversed(list(enumerate(_WORD.findall(text))))}
    known = [word for word in sorted(places, key=places.__getitem__) if frequencies.get(word, 0) > 0]
    rarest = sorted(known, key=lambda word: (frequencies[word], -len(word)))[:words]
    found = _WORD.findall(text)
    return " ".join(found[place] for place in sorted(places[word] for word in rarest))
