"""Norms that a text cites: sections of laws, and articles."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from freki.operators.analyse_query.places import (
    MAX_CITED,
    CitedPlace,
    CitedSpan,
    called_in,
    laws_of,
    numbers_through,
    of_law,
    of_one_document,
)
from freki.schemas.citations import (
    ARTICLES,
    FOLLOWING,
    JOINT,
    NO_QUANTITY,
    PART,
    PARTS,
    ROMAN,
    SECTIONS,
    SHORT_NAME,
    SPACED_LETTER,
    THROUGH,
    with_plain_signs,
)
from freki.schemas.divisions import DIVISION, LABEL
from freki.schemas.numerals import value_of_roman

MAX_NAME_WORDS = 3
"""Maximum words of the name of a law: `German Civil Code`."""

# `§§ 5/6 BGB`; a year behind a number is that of a file.
_JOINT = rf"(?:{JOINT}|/(?!(?:19|20)\d\d\b))"
_NUMBER = rf"\d{{1,6}}(?:{SPACED_LETTER}|[a-z]??(?={FOLLOWING})|[a-zA-Z]?\b)"
_LIST = rf"{_NUMBER}(?:(?:{THROUGH}{_NUMBER}|{_JOINT}(?:§§?\s?)?{_NUMBER}(?(several)|{NO_QUANTITY}))){{0,20}}"
# Of `Abs. 2 und 3`, `Abs. 2 Satz 1 und Abs. 4`, `(2) and (3)`, `I, II`, `lit. a bis c`.
_LETTERED = r"(?:\s?\([a-z]{1,3}\)){0,2}"
_MORE = (
    rf"(?:{_JOINT}(?:{PART}{PARTS}|\(\d{{1,3}}[a-z]?\){PARTS}{_LETTERED}|\([a-z]{{1,3}}\)|{ROMAN}|[a-z]\b\)?(?!\.\s?\w)"
    rf"|\d{{1,3}}[a-z]?{NO_QUANTITY}{PARTS})){{0,20}}"
)
_CITED = re.compile(
    rf"(?:(?P<several>§§)|§|\b(?:{ARTICLES}|{SECTIONS}))\s{{0,3}}(?P<numbers>{_LIST})(?P<parts>{PARTS}{_LETTERED}{_MORE})"
    r"(?:\s?(?:ff|(?P<next>f))\b\.?)?"
)
# `Absatz 2 des § 5 HGB`, `§ 5 HGB Abs. 2`.
_PARTS_BEFORE = re.compile(rf"(?<!\w)(?P<parts>{PART}{PARTS}{_MORE})\s(?:(?:de[sr]|von|im|in)\s)?$")
_PARTS_BEHIND = re.compile(
    rf"\s{SHORT_NAME}(?:[\s-](?:[IVX]{{1,5}}|\d{{1,2}})\b)?(?P<parts>,?\s{PART}{PARTS}{_MORE})(?:\s?(?:ff|(?P<next>f))\b\.?)?"
)
_NUMBERS = re.compile(rf"(?P<digits>\d{{1,6}})(?P<letter>{SPACED_LETTER}|[a-zA-Z]\b)?")
_RANGE = re.compile(THROUGH)
_HEADING = re.compile(r"\W{0,8}(?P<digits>\d{1,6})(?P<letter>[a-z])?\b")
_SMALL = frozenset(
    {"a", "an", "and", "das", "dem", "den", "der", "des", "die", "from", "gem", "gemäss", "i", "im", "in", "laut", "m"}
    | {"nach", "of", "oder", "or", "s", "siehe", "sowie", "the", "u", "und", "v", "vgl", "von", "zu", "zum"}
)
_WORD = re.compile(r"[^\W_]+")
_SHORT_NAME = re.compile(SHORT_NAME)

_ARTICLE = re.compile(ARTICLES)
_PART_SIGNS = re.compile(
    r"(?P<through>bis\b|to\b|[-–—\u2212])|(?P<clause>\b(?i:Abs(?:[aä]tz(?:e[ns]?)?)?)\b|\()"
    r"|(?P<item>\b(?i:Nrn?|Nummern?|Ziff(?:ern?)?)\b)|(?P<ordinal>\d{1,2}\.\s?[^\W\d_]{2,20})"
    rf"|(?P<number>\d{{1,3}}[a-z]?\b)(?P<letter>{SPACED_LETTER})?|(?P<roman>\b[IVX]{{1,6}}\b)"
    r"|(?P<other>[^\W\d_]{1,20})"
)
_OF_ANNEX = re.compile(rf"\b{DIVISION}(?:{JOINT}{LABEL}){{0,20}}\s{{1,3}}\(?zu\s(?:de[mn]\s)?$")
_MOST_BEFORE = 64
_ITEM_LINE = re.compile(r"^[^\w\n(]{0,8}(\d{1,3}[a-z]?)\\?[.)]\s", re.MULTILINE)
_JOINTS = frozenset({"und", "u", "sowie", "oder", "and", "or"})
_NUMBERED = re.compile(r"^\s{0,8}\((\d{1,3}[a-z]?)\)\s", re.MULTILINE)

Number = tuple[int, str]
"""Number and letter of a section, which sort as laws count them: § 573, § 573a, § 574."""
Ranges = tuple[tuple[Number, Number], ...]
"""First and last of each: 5 and 5, 7 and 9."""


class CitedNorms(NamedTuple):
    """Sections or articles that are cited together."""

    text: str
    """As cited: `§§ 5, 7 bis 9`."""
    ranges: Ranges


def citation_levels(query: str, places: Sequence[CitedPlace]) -> list[int]:
    """Return how well each place is what a query cites: 1 is the section or article, 0 another one.

    One that holds the clause that is cited counts one more, and one more if it also holds the item: `Nr. 14`, of a
    section without clauses too. Places are in order of relevance. Those count whose document is called as the query
    calls the law, in short: `§ 3 NetzDG`. Where it names none so, those of one document count: that with such a section
    whose name has most words of the query; of equal ones the first.
    """
    levels = [0] * len(places)
    asked = list(islice(dict.fromkeys(_citations(query)), MAX_CITED))
    if not asked:
        return levels
    sections = {place: section for place, each in enumerate(places) if (section := _section_of(each.headings))}
    called = called_in(query, places)
    for cited in asked:
        within = [place for place, section in sections.items() if cited.section.meets(section)]
        within = of_law(within, cited.law, places) if cited.law else list(of_one_document(within, places, called))
        for place in within:
            levels[place] = max(levels[place], 1 + cited.parts.common_with(_held_by(places[place].text)))
    return levels


def cited_norms(text: str) -> Iterator[CitedNorms]:
    """Yield the norms that a text cites, in its order; `§ 5 f.` are § 5 and § 6."""
    for found in _CITED.finditer(_plain(text)):
        yield CitedNorms(found[0].strip(), _ranges(found))


def norm_spans(text: str) -> list[tuple[int, int]]:
    """Return where a text, with plain signs, cites norms."""
    return [found.span() for found in _CITED.finditer(text)]


class _Section(NamedTuple):
    is_article: bool
    ranges: Ranges

    def meets(self, other: "_Section") -> bool:
        """Return whether both are sections, or both articles, with a number in common."""
        return self.is_article is other.is_article and any(
            _meet(one, each) for one in self.ranges for each in other.ranges
        )


class _Parts(NamedTuple):
    """Parts of a section: those that are cited, or that a text holds."""

    clauses: frozenset[str]
    items: frozenset[str]

    def common_with(self, held: "_Parts") -> int:
        """Return how far a text holds what is cited: the clause, and then the item, which each clause has again."""
        has_clause = bool(self.clauses & held.clauses)
        has_item = bool(self.items & held.items) and (has_clause or not self.clauses)
        return has_clause + has_item


class _Citation(NamedTuple):
    section: _Section
    parts: _Parts
    law: frozenset[str]
    """Its short names."""


def _citations(text: str) -> Iterator[_Citation]:
    text = _plain(text)
    found = list(_CITED.finditer(text))
    spans = [CitedSpan(each.start(), each.end(), is_article=_is_article(each)) for each in found]
    end = 0
    for each, law in zip(found, laws_of(text, spans), strict=True):
        before = max(end, each.start() - _MOST_BEFORE)
        # Of `Anlage 3 zu § 5` the annex is meant.
        if not _OF_ANNEX.search(text, before, each.start()):
            yield _Citation(section=_section(each), parts=_parts_of(text, each, before), law=law)
        end = each.end()


def _parts_of(text: str, cited: re.Match[str], before: int) -> "_Parts":
    """Return the parts that are cited with a section: behind it, else behind its law, or before it."""
    if cited["parts"]:
        return _parts(cited["parts"], goes_on=bool(cited["next"]))
    if behind := _PARTS_BEHIND.match(text, cited.end()):
        return _parts(behind["parts"], goes_on=bool(behind["next"]))
    ahead = _PARTS_BEFORE.search(text, before, cited.start())
    return _parts(ahead["parts"] if ahead else "", goes_on=False)


def _parts(written: str, *, goes_on: bool) -> _Parts:
    """Return the clauses and items that are cited with a section; a number without a word is as the one before it.

    goes_on: whether the one after the last is cited too: `Abs. 2 f.`
    """
    found: dict[str, list[str]] = {"clause": [], "item": [], "other": []}
    numbers = found["other"]
    kind, is_range = "", False
    for sign in _PART_SIGNS.finditer(written):
        if number := sign["number"] or (sign["roman"] and str(value_of_roman(sign["roman"]))):
            # Of `I 1` the second is a sentence.
            kind = (kind or "clause") if sign["number"] or kind != "other" else "clause"
            numbers = found[kind]
            numbers += numbers_through(numbers[-1], number)[1:] if is_range and numbers else [number]
            kind = "other" if sign["roman"] else kind
            is_range = False
            if sign["letter"]:
                # `Abs. 2 a` is Abs. 2a, and `Nr. 3 a` may be letter a of Nr. 3.
                numbers.append(number + sign["letter"].strip())
        elif sign["through"]:
            is_range = True
        elif sign["other"] not in _JOINTS:
            kind = sign.lastgroup if sign.lastgroup in found else "other"
    if goes_on and numbers and numbers[-1].isdecimal():
        numbers.append(str(int(numbers[-1]) + 1))
    return _Parts(frozenset(found["clause"]), frozenset(found["item"]))


def _held_by(text: str) -> _Parts:
    return _Parts(frozenset(_NUMBERED.findall(text)), frozenset(_ITEM_LINE.findall(text)))


def _section_of(headings: Sequence[str]) -> _Section | None:
    """Return the section or article of the innermost heading that is one."""
    found = (_CITED.match(_plain(heading).lstrip()) for heading in reversed(headings))
    return next((_section(each) for each in found if each is not None), None)


def _section(found: re.Match[str]) -> _Section:
    return _Section(is_article=_is_article(found), ranges=_ranges(found))


def _is_article(found: re.Match[str]) -> bool:
    return _ARTICLE.match(found[0]) is not None


def _ranges(found: re.Match[str]) -> Ranges:
    """Return the numbers of a match of _CITED."""
    ranges: list[tuple[Number, Number]] = []
    end = 0
    for each in _NUMBERS.finditer(found["numbers"]):
        number = _number(each)
        is_last = ranges and _RANGE.fullmatch(found["numbers"], end, each.start())
        first = ranges.pop()[0] if is_last else number
        ranges.append((first, number))
        end = each.end()
    if found["next"] and not found["parts"]:
        first, (last, _) = ranges.pop()
        ranges.append((first, (last + 1, "")))
    return tuple(ranges)


def absent_norms(asked: Iterable[CitedNorms], texts: Iterable[str], headings: Iterable[str]) -> tuple[CitedNorms, ...]:
    """Return those of the norms that no text and no heading cites, in any spelling.

    Of norms that are cited together one is enough, and a range has what lies between. § and Art. are not told apart, as
    many confuse them. A heading may begin with the bare number: manuals have `5.1 Setup` for section 5.
    """
    lines = list(headings)
    found = {each for text in (*texts, *lines) for norms in cited_norms(text) for each in norms.ranges}
    numbers = [_number(number) for line in lines if (number := _HEADING.match(_plain(line)))]
    found |= {(number, number) for number in numbers}
    return tuple(norms for norms in asked if not any(_meet(one, other) for one in norms.ranges for other in found))


def is_bare_citation(text: str) -> bool:
    """Return whether a text is little more than norms: with at most the name of a law behind them, or short before."""
    found = list(_CITED.finditer(_plain(text)))
    if not found:
        return False
    before, *behind = _CITED.split(_plain(text))[:: _CITED.groups + 1]
    return all(map(_SHORT_NAME.match, _words(before))) and all(len(_words(part)) <= MAX_NAME_WORDS for part in behind)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word.casefold() not in _SMALL]


def _meet(one: tuple[Number, Number], other: tuple[Number, Number]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _number(found: re.Match[str]) -> Number:
    return int(found["digits"]), (found["letter"] or "").strip().lower()


def _plain(text: str) -> str:
    return with_plain_signs(unicodedata.normalize("NFC", text))
