"""Check of a sentence against the sources that should support it."""

import re
from collections.abc import Sequence
from typing import Final

from freki.schemas.answer import Doubt
from freki.schemas.names import record

LEAST_SHARE: Final = 0.5
"""Least share of the sentence's terms that its sources must have; chosen on `tests/quality/answers`."""
COMPARABLE_SHARE: Final = 0.6
"""Share of a clause's terms from which on a source's clause counts as the same statement."""

_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")
_CLAUSE = re.compile(r"(?<=[.!?;:])\s+|\n+|,\s+")
_NEGATION: Final = {
    "de": re.compile(
        r"(?<!\w)(?:nicht|nichts|nie|niemals|niemand\w*|ohne|weder|kein\w*|verboten\w*|unzulässig\w*|untersag\w*|"
        r"ausgeschlossen|unterlassen|abgelehnt|abzulehnen|entfällt|verfällt|verfallen)(?!\w)",
        re.IGNORECASE,
    ),
    "en": re.compile(
        r"(?<!\w)(?:not|no|never|nothing|nobody|none|neither|nor|without|cannot|refuse[sd]?|forbidden|prohibited|"
        r"\w+n['’]t)(?!\w)",
        re.IGNORECASE,
    ),
}
_WORDS_OF_NUMBERS: Final = (
    "null zero|ein eine einem einen einer eines one|zwei two|drei three|vier four|fünf five|sechs six|sieben seven|"
    "acht eight|neun nine|zehn ten|elf eleven|zwölf twelve|dreizehn thirteen|vierzehn fourteen|fünfzehn fifteen|"
    "sechzehn sixteen|siebzehn seventeen|achtzehn eighteen|neunzehn nineteen|zwanzig twenty"
)
_NUMBERS: Final = {
    **{word: str(value) for value, words in enumerate(_WORDS_OF_NUMBERS.split("|")) for word in words.split()},
    "dreißig": "30",
    "thirty": "30",
    "vierzig": "40",
    "forty": "40",
    "fünfzig": "50",
    "fifty": "50",
    "sechzig": "60",
    "sixty": "60",
    "siebzig": "70",
    "seventy": "70",
    "achtzig": "80",
    "eighty": "80",
    "neunzig": "90",
    "ninety": "90",
    "hundert": "100",
    "hundred": "100",
}
_LEAST_COUNTED: Final = 2
"""`ein` and `one` are articles and pronouns more often than figures."""


@record
class Statement:
    """A text and its terms."""

    text: str
    places: tuple[frozenset[str], ...]
    """Terms of each word, as of `analyse_text`: a word is in another text if one of them is."""
    clauses: tuple[tuple[str, tuple[frozenset[str], ...]], ...]
    """Parts between punctuation marks, with the terms of their words."""


def clauses_of(text: str) -> list[str]:
    """Return the parts of a text between punctuation marks or at line ends."""
    return [part for part in _CLAUSE.split(text) if part.strip()]


def doubt_of(sentence: Statement, sources: Sequence[Statement], *, language: str, words: bool = True) -> Doubt | None:
    """Return why a sentence is not supported by the sources together, or None if nothing speaks against it.

    A figure, also as a word up to twenty, must be in a source. Half of the words must have a term in a source. A clause
    that shares most words with one of a source must be negated if and only if that one is. Without `words`, as for a
    sentence in another language, only figures are compared. Without sources, nothing is supported.

    The check knows neither roles nor quantities: `A pays B` and `B pays A` have the same words.
    """
    if not has_figures(sentence.text, [source.text for source in sources]):
        return Doubt.FIGURE
    if not words:
        return None
    have = frozenset[str]().union(*(terms for source in sources for terms in source.places))
    if _share(sentence.places, have) < LEAST_SHARE or not sources:
        return Doubt.WORDS
    return Doubt.NEGATION if _reverses(sentence, sources, language) else None


def has_figures(sentence: str, sources: Sequence[str]) -> bool:
    """Return whether each figure of a sentence, also as a word up to twenty, is in a source."""
    return _figures(sentence) <= set[str]().union(*map(_figures, sources))


def _figures(text: str) -> set[str]:
    """Return figures as digits without separators; words of numbers as digits."""
    found = {re.sub(r"[.,](?=\d{3}(?!\d))", "", figure).replace(",", ".") for figure in _FIGURE.findall(text)}
    counted = (_NUMBERS.get(word.lower(), "") for word in _WORD.findall(text))
    return found | {figure for figure in counted if figure and int(figure) >= _LEAST_COUNTED}


def _share(places: Sequence[frozenset[str]], have: frozenset[str]) -> float:
    return sum(not have.isdisjoint(terms) for terms in places) / len(places) if places else 0.0


def _reverses(sentence: Statement, sources: Sequence[Statement], language: str) -> bool:
    negation = _NEGATION.get(language)
    if negation is None:
        return False
    theirs = [clause for source in sources for clause in source.clauses]
    for text, places in sentence.clauses:
        # Clauses with most shared words; of those, the shortest says least besides.
        shares = [(_share(places, frozenset().union(*terms)), -len(terms), other) for other, terms in theirs if terms]
        if not places or not shares:
            continue
        share, _, closest = max(shares)
        if share >= COMPARABLE_SHARE and bool(negation.search(text)) != bool(negation.search(closest)):
            return True
    return False
