"""Splitting of German compounds by a small dictionary of parts."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import Stemmer

# Linking letters between two parts, and their costs.
_LINKS = {"": 0, "s": 3, "n": 3, "en": 7, "es": 15, "er": 15, "e": 12, "ens": 25, "ns": 25}
_JOIN = 10
_UNSPLIT, _UNSPLIT_LETTER = 30, 16
_LEAST_COMPOUND, _LONGEST_COMPOUND = 7, 60
# Shorter last parts are mostly inflections, unless they also occur as first parts.
_LEAST_HEAD = 4


class _Compounds(NamedTuple):
    """The dictionary of parts, with their costs."""

    modifiers: Mapping[str, tuple[int, str]]
    """Cost and base form of each non-final part, by its form including linking letters."""
    heads: Mapping[str, int]
    """Cost of each final part, by stem."""


class _Split(NamedTuple):
    cost: int
    parts: tuple[str, ...]


def compound_parts(word: str) -> list[str]:
    """Return the smallest known parts of a German compound; empty for any other word."""
    if not _LEAST_COMPOUND <= len(word) <= _LONGEST_COMPOUND:
        return []
    parts = _cheapest_split(word)
    return [smaller for part in parts for smaller in (compound_parts(part) or [part])]


def is_common_noun(word: str) -> bool:
    """Return whether a word is a compound, a part of some, or ends in one: `Handyvertrag`, `Breite`, `Türbreite`."""
    folded = word.casefold()
    modifiers, heads = _compounds()
    stem = _stemmer().stemWord
    ends = (folded[place:] for place in range(max(2, len(folded) - _LONGEST_COMPOUND), len(folded) - _LEAST_HEAD + 1))
    return (
        folded in modifiers
        or stem(folded) in heads
        or bool(compound_parts(folded))
        or any(stem(end) in heads for end in ends)
    )


def _cheapest_split(word: str) -> tuple[str, ...]:
    """Return the parts of minimum total cost, by dynamic programming; empty where the whole word is cheaper."""
    modifiers, heads = _compounds()
    stem = _stemmer().stemWord
    best: dict[int, _Split] = {}
    for start in range(len(word) - 2, -1, -1):
        rest = word[start:]
        choices = [
            _Split(found[0] + _JOIN + best[end].cost, (found[1], *best[end].parts))
            for end in range(start + 2, len(word) - 1)
            if end in best and (found := modifiers.get(word[start:end]))
        ]
        if start == 0:
            choices.append(_Split(_UNSPLIT + _UNSPLIT_LETTER * len(word), ()))
        elif len(rest) >= _LEAST_HEAD or modifiers.get(rest, (0, ""))[1] == rest:
            cost = heads.get(stem(rest))
            choices += [] if cost is None else [_Split(cost, (rest,))]
        if choices:
            best[start] = min(choices)
    return best[0].parts


@cache
def _compounds() -> _Compounds:
    modifiers: dict[str, tuple[int, str]] = {}
    heads: dict[str, int] = {}
    text = files(__package__).joinpath("data", "compounds_de.txt").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        part, as_modifier, as_head = line.split()
        if as_head != "-":
            heads[part] = int(as_head)
        for link, cost in _LINKS.items() if as_modifier != "-" else ():
            entry = (int(as_modifier) + cost, part)
            modifiers[part + link] = min(entry, modifiers.get(part + link, entry))
    return _Compounds(modifiers, heads)


@cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("german", 0)  # words are cached, and its own cache costs more than a stem
