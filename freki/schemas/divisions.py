"""Divisions of laws, rules and contracts that a word and a number name: `Anlage 3`, `II. Teil`, `Zweiter Abschnitt`."""

import re
from typing import NamedTuple

from freki.schemas.numerals import value_of_roman

_BEGINNINGS = {
    "anlage": "anl",
    "anhang": "anh",
    "annex": "annex",
    "appendix": "appendi",
    "buch": "b",
    "teil": "teil",
    "unterkapitel": "unterkap",
    "kapitel": "kap",
    "unterabschnitt": "unterabschn",
    "abschnitt": "abschn",
    "untertitel": "untertitel",
    "titel": "titel",
}
ANNEXES = frozenset({"anlage", "anhang", "annex", "appendix"})
"""Kinds that are part of no other."""
_ANNEX = r"anl(?:agen?|\.)|anh(?:ang(?:e?s)?|änge|\.)|annex(?:es)?|appendi(?:x|ces)"
_PART = (
    r"(?:unter)?abschn(?:itt(?:e[ns]?|s)?|\.)|(?:unter)?kap(?:iteln?|itels|\.)|(?:unter)?titel[ns]?"
    r"|teil(?:e[ns]?|s)?|buch(?:e?s)?"
)
_ORDINALS = (
    *("erst", "zweit", "dritt", "viert", "fünft", "sechst", "siebt", "acht", "neunt", "zehnt", "elft", "zwölft"),
    *("dreizehnt", "vierzehnt", "fünfzehnt", "sechzehnt", "siebzehnt", "achtzehnt", "neunzehnt", "zwanzigst"),
)
_ORDINAL = re.compile(rf"({'|'.join(_ORDINALS)}|siebent)e[rnsm]?", re.IGNORECASE)
LABEL = r"(?:\d{1,3}[a-z]?|[IVX]{1,6}|[A-H])(?![\w%]|[.,]\d)"
"""Number behind the word."""
ORDINAL = rf"(?:\d{{1,2}}\.|[IVX]{{1,6}}\.|(?i:{_ORDINAL.pattern.replace('(', '(?:', 1)})(?=\s))"
"""Pattern of a number before the word."""
DIVISION = (
    rf"(?:(?P<word>(?i:{_ANNEX}|{_PART}))(?:(?<=\.)|\s)\s{{0,2}}(?P<label>{LABEL})"
    rf"|(?<![\w.,])(?P<before>{ORDINAL})\s{{0,3}}(?P<part>(?i:{_PART}))(?!\w|\s{{1,3}}{LABEL}))"
)
"""Pattern of a division, for `division_of`."""


class Division(NamedTuple):
    """What two citations of the same division have in common."""

    kind: str
    label: str
    """A decimal number, also where a numeral is Roman or a word; `2a` of `Anlage 2a`, `B` of `Teil B`."""


def may_name(text: str, kind: str) -> bool:
    """Return whether a text may have a word for this kind of division."""
    return _BEGINNINGS[kind] in text.casefold()


def division_of(found: re.Match[str]) -> Division:
    """Return the division of a match of DIVISION."""
    word = (found["word"] or found["part"]).casefold()
    kind = next(kind for kind, beginning in _BEGINNINGS.items() if word.startswith(beginning))
    return Division(kind, label_of(found["label"] or found["before"]))


def label_of(written: str) -> str:
    """Return the number of a division, a match of LABEL or ORDINAL, as others write it: `4` for `IV.` and `Vierter`."""
    plain = written.rstrip(".")
    if ordinal := _ORDINAL.fullmatch(plain):
        stem = ordinal[1].lower().replace("siebent", "siebt")
        return str(_ORDINALS.index(stem) + 1)
    return str(value_of_roman(plain)) if set(plain) <= set("IVX") else plain
