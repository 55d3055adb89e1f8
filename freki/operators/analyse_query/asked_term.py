"""The term whose meaning a question asks for."""

import re

_ARTICLE = r"(?:(?:d(?:er|ie|as|em)|eine?[mr]?|the|an?)\s+)?"
_KIND = r"(?:(?:abkürzung|begriff|bezeichnung|kürzel|abbreviation|acronym|term)\s+)?"
_TERM = rf"{_ARTICLE}{_KIND}[^\w\s]*(?P<term>\w.*?)"
_ASKED = tuple(
    re.compile(rf"\W*{pattern}\W*", re.IGNORECASE)
    for pattern in (
        rf"was\s+(?:ist|meint\s+man|versteht\s+man)\s+(?:mit|unter)\s+{_TERM}(?:\s+(?:gemeint|zu verstehen))?",
        rf"(?:was|wof(?:ü|ue)r)\s+(?:ist|sind|bedeute[nt]|hei(?:ß|ss)(?:t|en)|meint|steht|stehen)\s+{_TERM}(?:\s+für)?",
        rf"what\s+(?:is|are)\s+(?:meant\s+by\s+)?{_TERM}",
        rf"what\s+(?:do|does)\s+{_TERM}\s+(?:mean|stand\s+for)",
        rf"(?:bedeutung|definition|meaning)\s+(?:von|des|of)\s+{_TERM}",
    )
)
_LONGEST = 200
"""Characters of a question; longer texts ask for more."""
_MOST_WORDS = 3
"""Of an abbreviation, such as `SGB XII`; more may be a question in capitals."""


def asked_term(text: str) -> str:
    """Return the term whose meaning a question in German or English asks for, without article; other text as it is."""
    patterns = _ASKED if len(text) <= _LONGEST else ()
    found = next(filter(None, (pattern.fullmatch(text) for pattern in patterns)), None)
    return text if found is None else found["term"]


def asked_abbreviation(text: str) -> str:
    """Return the abbreviation that a query is, or whose meaning it asks for, as `SGB XII`; nothing if there is none."""
    term = asked_term(text)
    words = term.split()
    return term if 0 < len(words) <= _MOST_WORDS and all(map(_is_abbreviation, words)) else ""


def _is_abbreviation(word: str) -> bool:
    capitals = sum(letter.isupper() for letter in word)
    return capitals > 1 or (capitals > 0 and word == word.upper())
