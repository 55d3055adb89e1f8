"""Numbered clauses of contracts, manuals and minutes that a text cites: `Ziffer 5.2`, `Abschnitt IV`, `step 5`."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from freki.operators.analyse_query.norms import citation_levels, norm_spans
from freki.operators.analyse_query.places import (
    MAX_CITED,
    CitedPlace,
    called_in,
    line_matches,
    numbers_through,
    of_one_document,
)
from freki.schemas.citations import JOINT, NO_QUANTITY, THROUGH, with_plain_signs
from freki.schemas.divisions import DIVISION

_CHAPTERS = r"kapiteln?|kapitels|kap\.|chapters?|(?-i:TOPs?)|tagesordnungspunkt(?:en?|e?s)?"
_RULES = r"klauseln?|vertragspunkt(?:en?|s)?|clauses?|tarif(?:stellen?|nummern?)"
_SECTIONS = r"abschnitt(?:en?|e?s)?|sec(?:\.|tions?)"
_POINTS = r"ziffern?|ziff\.|nummern?|nrn?\."
_GERMAN = rf"{_POINTS}|abschnitt(?:en?|e?s)?|punkt(?:en?|s)?"
_PARTS = rf"{_GERMAN}|top|{_SECTIONS}|no\.|numbers?|items?|points?"
_MARGINS = (
    r"rn\.?|rdn\.?|(?:rd|rand)nrn?\.?|rz\.?|tz\.?|rand(?:nummern?|ziffern?)|(?:text|teil)ziffern?|paras?\.?|paragraphs?"
)
_STEPS = r"(?:arbeits|verfahrens|prüf)?schritt(?:en?|e?s)?|steps?"
_ROMAN = r"(?-i:[IVX]{1,6}\b)"
_ANY = r"[1-9]\d{0,3}(?:\.\d{1,3}){0,5}"
_POINTED = r"\d{1,3}(?:\.\d{1,3}){1,5}"
# Contracts have `§ 5.2`.
_SIGN = r"§\s?(?=\d{1,3}\.\d)"


def _list(number: str) -> str:
    # `Nummer 1.250,50` is an amount.
    return rf"{number}(?:(?!,\d){JOINT}{number}(?-i:{NO_QUANTITY})){{0,20}}"


# A number without points behind the other words for parts mostly counts something, as in `Punkt 3 der Liste`.
# In English `section I` may go on with a verb.
_CITED = re.compile(
    rf"(?:\b(?:(?:(?P<chapter>{_CHAPTERS})|(?P<rule>{_RULES})|(?P<section>{_SECTIONS})|(?P<point>{_POINTS})"
    rf"|(?P<margin>{_MARGINS})|(?<!für\s)(?<!by\s)(?P<step>{_STEPS}))\s{{0,3}}(?P<any>{_list(_ANY)})"
    rf"|(?:{_GERMAN}|kapitels?|kap\.|klauseln?)\s{{0,3}}(?P<roman>{_list(_ROMAN)}))"
    rf"|(?:\b(?:{_PARTS})|§§?)\s{{0,3}}(?P<pointed>{_list(_POINTED)}))(?:\s?(?:ff|(?P<next>f))\b)?(?![\w%]|[.,/]\d)",
    re.IGNORECASE,
)
_EACH = re.compile(r"\d{1,4}(?:\.\d{1,3}){0,5}|[IVX]{1,6}\b")
_THROUGH = re.compile(THROUGH)
# `Formular Nr. 3` is the number of a form.
_NOUN_BEFORE = re.compile(r"(?P<word>[A-ZÄÖÜ][\w-]{1,60})\s$")
_NO_NOUNS = frozenset({"gemäß", "gilt", "in", "laut", "nach", "regelt", "siehe", "unter", "vgl", "zu"})
_MOST_BEFORE = 64
_HEADING = re.compile(
    rf"[^\w§]{{0,12}}(?:(?:(?P<margin>{_MARGINS})|(?P<step>{_STEPS})|{_CHAPTERS}|{_RULES}|{_PARTS})\s|{_SIGN})?"
    rf"(?P<number>\d{{1,4}}(?:\.\d{{1,3}}){{0,5}}|{_ROMAN})(?![\w.,]\w)",
    re.IGNORECASE,
)
_LINE = re.compile(
    rf"[^\w\n§(]{{0,12}}(?:(?:(?P<margin>{_MARGINS})|(?P<step>{_STEPS}))\s|{_SIGN})?(?P<number>\d{{1,4}}(?:\.\d{{1,3}}){{0,5}})"
    r"(?=\\?[.):\]]{0,2}(?:\s|$))",
    re.MULTILINE | re.IGNORECASE,
)
_DIVISION = re.compile(rf"\b{DIVISION}")
_BY_HEADINGS = frozenset({"chapter", "section"})
_WITH_WORD = frozenset({"margin", "step"})
_COMMON = frozenset({"section", "point"})
_IN_DOUBT = _COMMON | _WITH_WORD


class _Clause(NamedTuple):
    number: str
    kind: str
    """Of word before it: chapter, rule, section, point, margin, step."""
    is_norm: bool
    """Whether it may be a section of a law: `section 3`, `Paragraph 3`."""
    is_division: bool
    """Whether it is read as a division too: `Kapitel 3`."""

    @property
    def is_pointed(self) -> bool:
        return not self.number.isdecimal()

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be no clause at all: `Schritt 5`."""
        return self.kind in _IN_DOUBT and self.number.isdecimal()

    @property
    def is_common(self) -> bool:
        """Whether headings of most texts begin with its number: `Nummer 3`."""
        return self.kind in _COMMON and self.number.isdecimal()


class _Held(NamedTuple):
    """Numbers that a place holds, each with the kind of word before it; that is empty for all words but two."""

    headings: frozenset[tuple[str, str]]
    lines: frozenset[tuple[str, str]]

    def strength(self, clause: _Clause) -> int:
        """Return 2 if a place surely holds a clause, 1 if perhaps, as an item of a list has its number, else 0."""
        number = clause.number
        if clause.kind in _WITH_WORD and not clause.is_pointed:
            named, bare = (clause.kind, number), ("", number)
            surely = named in self.headings or named in self.lines
            return 2 if surely else int(bare in self.headings or bare in self.lines)
        if ("", number) in self.headings or (clause.is_pointed and ("", number) in self.lines):
            return 2
        return int(clause.kind not in _BY_HEADINGS and ("", number) in self.lines)


def cited_clauses(text: str) -> Iterator[str]:
    """Yield the numbers of the clauses that a text cites, in its order."""
    for clause in _clauses(with_plain_signs(text)):
        yield clause.number


def clause_places(
    query: str, places: Sequence[CitedPlace], *, inside: Collection[int] = (), surely: bool = False
) -> set[int]:
    """Return which of the places are, or hold, a clause that a query cites.

    Places are in order of relevance. A place holds a clause if one of its headings begins with the number, or, where
    that has points, a line of its text. Of several documents with such a clause that one counts whose name has most
    words of the query, in the genitive too: `Ziffer 5.2 des Rahmenvertrags`; of equal ones the first. Numbers without
    points may be those of items of the most relevant document, or of one that the query calls, and of sections and
    points (`Abschnitt 3`, `Nr. 3`) of such documents only, where no norm is meant.
    inside: places of divisions that the query cites; those come before all others: `Nr. 3 der Anlage 2`.
    surely: leave out what only an item has, or is no clause for sure.
    """
    asked = list(islice(dict.fromkeys(_clauses(with_plain_signs(query))), MAX_CITED))
    if not (asked and places):
        return set()
    if any(clause.is_norm for clause in asked) and any(citation_levels(query, places)):
        asked = [clause for clause in asked if clause.is_pointed or not clause.is_norm]
    numbers = {clause.number for clause in asked}
    held = [_held_by(place, numbers) for place in places]
    called = called_in(query, places)
    found: set[int] = set()
    for clause in asked:
        strengths = [each.strength(clause) for each in held]
        within = _meant(clause, strengths, places, called, inside=inside, surely=surely)
        found.update(of_one_document(within, places, called))
    return found


def _meant(
    clause: _Clause,
    strengths: Sequence[int],
    places: Sequence[CitedPlace],
    called: Sequence[int],
    *,
    inside: Collection[int],
    surely: bool,
) -> list[int]:
    """Return the places that a clause may mean, of any document."""
    certain = [place for place, strength in enumerate(strengths) if strength > 1]
    if surely:
        return [] if clause.is_doubtful else certain
    possible = [place for place, strength in enumerate(strengths) if strength]
    best = places[0].document
    ways = (
        [place for place in possible if place in inside and not clause.is_division],
        [place for place in certain if called[place]],
        [place for place in possible if called[place]],
        [place for place in certain if not clause.is_common or places[place].document == best],
        [place for place in possible if places[place].document == best],
    )
    return next(filter(None, ways), [])


def _clauses(text: str) -> Iterator[_Clause]:
    norms = norm_spans(text)
    divisions = {found.start() for found in _DIVISION.finditer(text)}
    for found in _CITED.finditer(text):
        kind = next((name for name in ("chapter", "rule", "section", "point", "margin", "step") if found[name]), "")
        numbers = found["any"] or found["roman"] or found["pointed"]
        start = found.start()
        if any(first < start < end for first, end in norms) or (
            found[0][0] in "Nn" and numbers.isdecimal() and _is_name(text, start)
        ):
            continue
        for number in _each_of(numbers, goes_on=bool(found["next"])):
            yield _Clause(number, kind, any(first == start for first, _ in norms), start in divisions)


def _each_of(numbers: str, *, goes_on: bool) -> Iterator[str]:
    """Yield the numbers of a list; goes_on: also the one after the last, as in `Rn. 12 f.`."""
    last, end = "", 0
    for found in _EACH.finditer(numbers):
        if last and _THROUGH.fullmatch(numbers, end, found.start()):
            yield from numbers_through(last, found[0])[1:]
        else:
            yield found[0]
        last, end = found[0], found.end()
    if goes_on and last.isdecimal():
        yield str(int(last) + 1)


def _is_name(text: str, start: int) -> bool:
    """Return whether a noun stands before a number, which is a part of its name."""
    before = _NOUN_BEFORE.search(text, max(0, start - _MOST_BEFORE), start)
    return before is not None and before["word"].casefold() not in _NO_NOUNS


def _held_by(place: CitedPlace, numbers: Collection[str]) -> _Held:
    """Return which of these numbers a place holds, perhaps also others."""
    headings = (_HEADING.match(with_plain_signs(heading)) for heading in place.headings)
    has_any = any(number in place.text for number in numbers)
    lines = line_matches(_LINE, with_plain_signs(place.text)) if has_any else ()
    return _Held(
        frozenset(_numbered(found) for found in headings if found), frozenset(_numbered(found) for found in lines)
    )


def _numbered(found: re.Match[str]) -> tuple[str, str]:
    kind = "margin" if found["margin"] else "step" if found["step"] else ""
    return kind, found["number"]
