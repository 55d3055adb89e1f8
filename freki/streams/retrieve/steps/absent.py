"""What a query names that no hit has: norms, designations, days and names.

Scores compare meanings, and find `§ 4711 BGB` like any section of this law, and `PEP 3107` like any PEP.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from freki.operators.analyse_query import (
    MAX_CITED,
    absent_designations,
    absent_norms,
    cited_norms,
    compared,
    folded,
    is_short,
)
from freki.operators.analyse_text import analyse_text
from freki.operators.detect_language import UNDETERMINED
from freki.schemas import ContextHit, NoticeKind, Widening
from freki.streams.retrieve.candidates import LocatedHits
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.steps.exact import STEP, texts_of
from freki.streams.retrieve.steps.periods import lacking, periods
from freki.streams.retrieve.steps.proper_names import proper_names

_INFLECTED = re.compile(r"(?<=\w{5})(?:e[nrs]?|ern|n|s)$|(?<=\w{3})s$")


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
    cited = list(islice(dict.fromkeys(cited_norms(query.text)), MAX_CITED)) if query.names_norm else []
    headings = [heading for each in found.found for heading in each.row.heading_path]
    norms = absent_norms(cited, texts, headings) if cited else ()
    others = list(_absent(query, found, texts)) if is_short(query.text) else []
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
    asked = periods(query.text, language=language)
    timed = {name for name in query.designations if any(name in each.text for each in asked)}
    # Other years count something, as 2000 in `2000 Euro` does.
    sought = [each.of_years() for each in asked if each.has_days or any(name in each.text for name in timed)]
    # A number of four digits may be no year, and most texts that have a year have it so.
    years = {each.text for each in sought if each.text.isdecimal()}
    untimed = [name for name in query.designations if name not in timed]
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
    names = [name for name in (*proper_names(query), *compared(query.text)) if all(name in text for text in spelt)]
    terms = {term for each in chunks for term in each.row.lexical.split()} if names else set()
    names = [name for name in dict.fromkeys(names) if terms.isdisjoint(analyse_text(name, language=language).split())]
    have = " ".join(map(folded, texts)) if names else ""
    return [name for name in names if _INFLECTED.sub("", folded(name)) not in have]
