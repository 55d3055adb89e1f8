"""What a query names that no hit has: norms, designations, days and names.

Scores compare meanings, and find `§ 4711 BGB` like any section of this law, and `PEP 3107` like any PEP.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from freki.operators.analyse_query import (
    MAX_NORMS,
    absent_designations,
    absent_norms,
    cited_norms,
    compared,
    designations,
    folded,
)
from freki.operators.analyse_text import analyse_text
from freki.operators.analyse_text.compounds import is_common_noun
from freki.operators.detect_language import UNDETERMINED
from freki.operators.rephrase import is_word
from freki.schemas import ContextHit, NoticeKind, Widening
from freki.streams.retrieve.candidates import LocatedHits
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.steps.exact import STEP, texts_of
from freki.streams.retrieve.steps.periods import lacking, periods

MAX_QUESTION_WORDS = 32
"""Longer texts, such as letters and logs, have numbers, dates and names that decide nothing."""
MAX_DESIGNATIONS = 32
"""Each is looked for in all texts of the hits."""
_WORDS = re.compile(r"(?<![\w'’])[^\W\d_]{3,}")
# Written in many ways, and in no dictionary.
_CALENDAR = frozenset(
    {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"}
    | {"december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "jänner"}
)
# Endings of nouns and adjectives that are made from others; few names have them.
_DERIVED = re.compile(
    r"\w{3,}(?:ung|heit|keit|schaft|tion|tät|ismus|nis|ment|ator|ssor|isch|ness|ity|ship|ance|ence|ean|ese|ish)"
    r"(?:e[mnrs]?|se[ns]?|s)?"
)
# German nouns have articles, names seldom; names before other nouns have those of these: `im Kafka Cluster`.
_ARTICLE = re.compile(
    r"\b(?:d(?:er|ie|as|en|em|es)|im|am|zu[mr]|beim|vom|ins|fürs|ans|aufs|(?:[dkms]?ein|ihr|unser|eu(?:er|r))(?:e[mnrs]?)?"
    r"|(?:jed|dies|jen|welch|manch|solch|all|viel|einig|mehrer|wenig|beid)e[mnrs]?|\d+|zwei|drei|vier|fünf)"
    r"\s+(?:[a-zäöüß]+e[mnrs]?\s+)?$",
    re.IGNORECASE,
)
_NOUN_BEHIND = re.compile(r"\s?-?[A-ZÄÖÜ]")
_MOST_BEFORE = 40
"""Characters before a word that are read."""
_INFLECTED = re.compile(r"(?<=\w{5})(?:e[nrs]?|ern|n|s)$|(?<=\w{3})s$")
_SENTENCE_END = re.compile(r"(?:^|[.!?:])\W*$")


class Absent(NamedTuple):
    """What a query names that no hit has."""

    names: Sequence[str]
    is_doubtful: bool
    """Whether this puts all hits in doubt: they lack each of its norms, or any of its designations, days and names."""


def note_absent(query: ParsedQuery, found: LocatedHits, hits: Sequence[ContextHit]) -> Absent:
    """Return what the query names that no hit has, nor its surroundings; add a notice of it."""
    if query.is_read or not hits:
        return Absent((), is_doubtful=False)
    texts = [text for each in found.found for text in texts_of(each)]
    texts += [part.text for hit in hits for part in (*hit.before, *([hit.parent] if hit.parent else []), *hit.after)]
    cited = list(islice(dict.fromkeys(cited_norms(query.text)), MAX_NORMS)) if query.names_norm else []
    headings = [heading for each in found.found for heading in each.row.heading_path]
    norms = absent_norms(cited, texts, headings) if cited else ()
    others = list(_absent(query, found, texts)) if len(query.text.split()) <= MAX_QUESTION_WORDS else []
    names = [*(each.text for each in norms), *others]
    if names:
        query.log.notice(STEP, NoticeKind.UNMET, f"no hit names {', '.join(names)}")
    return Absent(names, is_doubtful=bool(others) or (bool(norms) and len(norms) == len(cited)))


def _absent(query: ParsedQuery, found: LocatedHits, texts: Sequence[str]) -> Iterator[str]:
    """Yield the designations and periods that no text has, and the names that are no part of these."""
    numbered = _absent_numbers(query, texts)
    yield from numbered
    yield from (name for name in _absent_names(query, found, texts) if not any(name in each for each in numbered))


def _absent_numbers(query: ParsedQuery, texts: Sequence[str]) -> list[str]:
    """Return the designations that no text has as a whole, and the days, months and years in which no text has any."""
    language = query.analysis.language
    named = designations(query.text, query.analysis.exact)[:MAX_DESIGNATIONS]
    asked = periods(query.text, language=language)
    timed = {name for name in named if any(name in each.text for each in asked)}
    # Other years count something, as 2000 in `2000 Euro` does.
    sought = [each.of_years() for each in asked if each.has_days or any(name in each.text for name in timed)]
    # A number of four digits may be no year, and most texts that have a year have it so.
    years = {each.text for each in sought if each.text.isdecimal()}
    untimed = [name for name in named if name not in timed]
    unread = set(absent_designations([*untimed, *years], texts))
    sought = [each for each in sought if each.text not in years or each.text in unread]
    # A designation may be a version, or a day: 14.3.23.
    days = {
        name: [each for each in periods(f"am {name}", language=language) if each.is_day]
        for name in untimed
        if name in unread
    }
    absent = lacking([*chain.from_iterable(days.values()), *sought], texts, language=language)
    return [
        *(name for name, written in days.items() if not written or any(each in absent for each in written)),
        *(each.text for each in sought if each in absent),
    ]


def _absent_names(query: ParsedQuery, found: LocatedHits, texts: Sequence[str]) -> list[str]:
    """Return the names in a query, and the words that it compares, that no text has: `Kubernetes`, `Pacht`.

    None if no hit is in the language of the query: there names may differ. Nor are misspelt words names.
    """
    language, chunks = query.analysis.language, found.found
    if language not in {UNDETERMINED, *(each.row.language for each in chunks)}:
        return []
    spelt = [each.variant.text for each in found.search.variants if each.variant.kind is Widening.SPELLING]
    names = [name for name in (*_names(query), *compared(query.text)) if all(name in text for text in spelt)]
    terms = {term for each in chunks for term in each.row.lexical.split()} if names else set()
    names = [name for name in dict.fromkeys(names) if terms.isdisjoint(analyse_text(name, language=language).split())]
    have = " ".join(map(folded, texts)) if names else ""
    return [name for name in names if _INFLECTED.sub("", folded(name)) not in have]


def _names(query: ParsedQuery) -> list[str]:
    """Return words with a capital, within a sentence or in keywords, that are in no dictionary; no abbreviations."""
    text, language = query.text, query.analysis.language
    words = list(_WORDS.finditer(text))
    capitals = [
        word
        for word in words
        if word[0][0].isupper() and (query.analysis.keyword or not _SENTENCE_END.search(_before(word)))
    ]
    if language == "en" and len(capitals) > len(words) // 2:
        # A title, as headings have it.
        return []
    return [word[0] for word in capitals if not _is_common(word[0], language) and not _has_article(word, language)]


def _has_article(word: re.Match[str], language: str) -> bool:
    """Return whether a word of a German text is a noun by what stands before it: `die Mahnung`, `zwei neue Cookies`."""
    is_behind_article = _ARTICLE.search(_before(word)) is not None
    return language != "en" and is_behind_article and not _NOUN_BEHIND.match(word.string, word.end())


def _before(word: re.Match[str]) -> str:
    return word.string[max(0, word.start() - _MOST_BEFORE) : word.start()]


def _is_common(word: str, language: str) -> bool:
    """Return whether a word is no name: a stop word, an abbreviation, derived from others, or in a dictionary.

    German has many English words, and English texts German ones.
    """
    if word.casefold() in _CALENDAR or not analyse_text(word, language=language):
        return True
    if not word[1:].islower():
        # Abbreviations have long forms.
        return True
    return (
        _DERIVED.fullmatch(word) is not None
        or any(is_word(form, language=each) for form in (word, word.removesuffix("s")) for each in ("de", "en"))
        or (language != "en" and is_common_noun(word))
    )
