"""Which of a query's words, names and dates its hits have, and whether they can: other languages share few words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from freki.operators.analyse_query import compared
from freki.operators.analyse_text import TermPlace, analyse_text, plain_terms, term_places
from freki.operators.analyse_text.compounds import compound_parts, is_common_noun
from freki.operators.detect_language import UNDETERMINED
from freki.operators.rephrase import is_word
from freki.schemas.short_dates import with_full_years
from freki.streams.retrieve.candidates import LoadedChunk
from freki.streams.retrieve.parsed_query import ParsedQuery

MAX_READ = 8
"""Hits whose words are compared: a usual answer."""
_WORDS = re.compile(r"(?<![\w'’])[^\W\d_]{3,}")
# Written in many ways, and in no dictionary.
_CALENDAR = frozenset(
    {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"}
    | {"december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "jänner"}
)
_SENTENCE_END = re.compile(r"(?:^|[.!?:])\W*$")
# The analyser finds no day in 2024-03-01T10:15.
_BEFORE_TIME = re.compile(r"(?<=\d{4}-\d\d-\d\d)T(?=\d\d)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class Coverage(NamedTuple):
    """What hits have of the words of a query."""

    share: float
    """Largest share of the words that one hit has, 0..1."""
    is_any: bool
    """Has a hit any word, or a part of one?"""


def coverage(query: ParsedQuery, hits: Sequence[LoadedChunk]) -> Coverage:
    """Return what the best hits have of the query's words, in any inflection.

    A word counts if one of its terms is among those of the row: `Kündigung` also in `Kündigungsfrist`; a compound only
    if all of its parts are, `Biersteuer` not in `Kaffeesteuer`; a date only if the row has that day. Stop words do not
    count.
    """
    words = [_word(query, place) for place in term_places(query.text, language=query.analysis.language)]
    if not words:
        return Coverage(0.0, is_any=False)
    have = [frozenset(each.row.lexical.split()) for each in hits[:MAX_READ]]
    return Coverage(
        max((sum(word.is_in(terms) for word in words) / len(words) for terms in have), default=0.0),
        is_any=any(not terms.isdisjoint(word.terms | word.parts) for word in words for terms in have),
    )


def absent_days(query: ParsedQuery, texts: Iterable[str]) -> list[str]:
    """Return the days that the query names, with years in full, and that no text has in any notation."""
    asked = dict(_days(query.text, query.analysis.language))
    found = {day for text in texts for day, _ in _days(text, query.analysis.language)} if asked else set()
    return [written for day, written in asked.items() if day not in found]


def absent_names(
    query: ParsedQuery, chunks: Sequence[LoadedChunk], texts: Sequence[str], spelt: Sequence[str]
) -> list[str]:
    """Return the names in a query, and the words that it compares, that no text has: `Kubernetes`, `Pacht`.

    A name begins with a capital within a sentence, or a query of keywords, and is in no dictionary; abbreviations are
    none. None is returned if no hit is in the language of the query: names may differ. spelt: the query with misspelt
    words replaced.
    """
    language = query.analysis.language
    if language not in {UNDETERMINED, *(each.row.language for each in chunks)}:
        return []
    names = _names(query.text, language=language, keyword=query.analysis.keyword)
    have, terms = "\n".join(texts).casefold(), {term for each in chunks for term in each.row.lexical.split()}
    return [
        name
        for name in dict.fromkeys([*names, *compared(query.text)])
        if name.casefold().rstrip("s") not in have
        and terms.isdisjoint(analyse_text(name, language=language).split())
        and all(name in text for text in spelt)
    ]


def is_across(query: ParsedQuery, hit: LoadedChunk, *, covered: Coverage) -> bool:
    """Return whether a hit is in another language than the query.

    Few words may be of any language: then it is another one if no hit has one of them.
    """
    asked, written = query.analysis.language, hit.row.language
    return not covered.is_any if UNDETERMINED in (asked, written) else asked != written


def _names(text: str, *, language: str, keyword: bool) -> list[str]:
    found = list(_WORDS.finditer(text))
    words = [
        each for each in found if each[0][0].isupper() and (keyword or not _SENTENCE_END.search(text, 0, each.start()))
    ]
    if language == "en" and len(words) > len(found) // 2:
        # A title, as headings have it.
        return []
    return list(dict.fromkeys(each[0] for each in words if not _is_common(each[0], language)))


def _is_common(word: str, language: str) -> bool:
    """Return whether a word is no name: a stop word, an abbreviation, or in a dictionary of the language if certain."""
    if word.casefold() in _CALENDAR or not analyse_text(word, language=language):
        return True
    if not word[1:].islower():
        # Abbreviations have long forms.
        return True
    languages = ("de", "en") if language == UNDETERMINED else (language,)
    return any(is_word(word, language=each) for each in languages) or (language != "en" and is_common_noun(word))


def _days(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the days of a text as terms, and as it has them."""
    full = _BEFORE_TIME.sub(" ", with_full_years(text))
    for place in term_places(full, language=language):
        yield from ((day, full[place.start : place.end]) for day in _of_day(place.terms))


class _Word(NamedTuple):
    """A word of a query, as rows may have it."""

    terms: AbstractSet[str]
    """One of them is enough."""
    parts: AbstractSet[str]
    """All of them are needed; empty if it is no compound."""

    def is_in(self, row: AbstractSet[str]) -> bool:
        return not row.isdisjoint(self.terms) or (bool(self.parts) and self.parts <= row)


def _word(query: ParsedQuery, place: TermPlace) -> _Word:
    terms, plain = place.terms.split(), _plain(query, place)
    count = len(compound_parts(query.text[place.start : place.end].casefold()))
    whole, parts = terms[: len(terms) - count], terms[len(terms) - count :]
    return _Word(_of_day(place.terms) or {*whole, *plain}, set(parts))


def _of_day(terms: str) -> set[str]:
    """Return the term of the day of a date: its month and year are those of other days too."""
    return set(filter(_DAY.fullmatch, terms.split()))


def _plain(query: ParsedQuery, place: TermPlace) -> list[str]:
    """Return a word as rows hold it that were analysed for a baseline."""
    return plain_terms(query.text[place.start : place.end], language=UNDETERMINED).split()
