"""Joining and splitting of German compounds in queries."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations

_LINKS = frozenset({"", "s", "n", "e", "en", "es", "er", "ns", "ens"})
_WORDS = re.compile(r"[^\W\d_]+")
_LEAST_PART = 3
_MOST_WORDS = 12


def with_joined(query: str, vocabulary: Iterable[str]) -> str:
    """Replace the parts of a compound of the vocabulary: `Frist der Kündigung` becomes `Kündigungsfrist`.

    The compound replaces its first part; the other part and up to two words between them are removed. Empty where no
    compound fits. vocabulary: words as written.
    """
    words = _WORDS.findall(query)[:_MOST_WORDS]
    written = {word.casefold(): word for word in vocabulary}
    pairs = permutations([word for word in words if len(word) >= _LEAST_PART], 2)
    asked = {word.casefold() for word in words}
    for first, second in pairs:
        for link in sorted(_LINKS):
            compound = f"{first}{link}{second}".casefold()
            if compound in written and compound not in asked:
                return _with_compound(query, (first, second), written[compound])
    return ""


def with_split(query: str, split: Callable[[str], Sequence[str]]) -> str:
    """Replace compounds by their parts: `Kündigungsfrist` becomes `Kündigung Frist`; empty where there is none."""

    def parts(found: re.Match[str]) -> str:
        return " ".join(part.capitalize() for part in split(found[0].casefold())) or found[0]

    said = _WORDS.sub(parts, query)
    return said if said != query else ""


def _with_compound(query: str, parts: tuple[str, str], compound: str) -> str:
    one, other = (re.escape(part) for part in parts)
    between = r"\W+(?:\w+\W+){0,2}?"
    near = re.compile(rf"\b(?:{one}{between}{other}|{other}{between}{one})\b")
    said, count = near.subn(lambda _: compound, query, count=1)
    return said if count else f"{query} {compound}"
