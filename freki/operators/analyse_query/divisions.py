"""Annexes, parts and chapters that a text cites: `Anlage 3`, `Teil B`, `Zweiter Abschnitt`."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from freki.operators.analyse_query.norms import norm_spans
from freki.operators.analyse_query.places import (
    MAX_CITED,
    CitedPlace,
    CitedSpan,
    called_in,
    laws_of,
    line_matches,
    numbers_through,
    of_law,
    of_one_document,
)
from freki.schemas.citations import JOINT, NO_QUANTITY, THROUGH, with_plain_signs
from freki.schemas.divisions import DIVISION, LABEL, ORDINAL, Division, division_of, label_of, may_name

_CITED = re.compile(rf"\b{DIVISION}")
_MORE = re.compile(rf"(?P<joint>(?!,\d){JOINT})(?P<label>{LABEL}){NO_QUANTITY}")
_BEFORE = re.compile(rf"(?<![\w.,])(?P<label>{ORDINAL})\s{{1,3}}(?:und|oder|bis)\s{{1,3}}$")
_MOST_BEFORE = 24
_TO_SECTION = re.compile(r"\s{1,3}\(?zu\s(?:de[mn]\s)?")
_THROUGH = re.compile(THROUGH)
_HEADING = re.compile(rf"[^\w§]{{0,12}}{DIVISION}")
# Small sections are joined, and have their headings in the text, where `Anlage 3 genannten` is no heading.
_LINE = re.compile(rf"(?P<sign>#{{1,6}} )?[^\w§\n]{{0,4}}{DIVISION}(?(sign)|(?=[^\S\n]*(?:$|[(:–-])))", re.MULTILINE)


class _Citation(NamedTuple):
    division: Division
    law: frozenset[str]
    """Its short names."""


def cited_divisions(text: str) -> Iterator[Division]:
    """Yield the divisions that a text cites, in its order: two of `Anlagen 1 und 2`."""
    yield from (division for division, _ in _cited(with_plain_signs(text)))


def _citations(text: str) -> Iterator[_Citation]:
    plain = with_plain_signs(text)
    found = list(_cited(plain))
    norms = dict(norm_spans(plain))
    spans = [_with_section(plain, span, norms) for _, span in found]
    for (division, _), law in zip(found, laws_of(plain, spans), strict=True):
        yield _Citation(division, law)


def _with_section(plain: str, span: CitedSpan, norms: Mapping[int, int]) -> CitedSpan:
    """Return where an annex is cited, with its section: `Anlage 1 (zu § 5)`; norms: ends by starts."""
    to = _TO_SECTION.match(plain, span.end)
    end = norms.get(to.end(), span.end) if to else span.end
    return span._replace(end=end + (to is not None and "(" in to[0] and plain.startswith(")", end)))


def _cited(plain: str) -> Iterator[tuple[Division, CitedSpan]]:
    for found in _CITED.finditer(plain):
        kind, label = division_of(found)
        if found["before"] and (other := _BEFORE.search(plain, max(0, found.start() - _MOST_BEFORE), found.start())):
            yield Division(kind, label_of(other["label"])), CitedSpan(other.start(), other.end("label"))
        yield Division(kind, label), CitedSpan(*found.span())
        more = _MORE.match(plain, found.end()) if found["label"] else None
        while more:
            following = label_of(more["label"])
            is_range = _THROUGH.fullmatch(more["joint"])
            for each in numbers_through(label, following)[1:] if is_range else [following]:
                yield Division(kind, each), CitedSpan(*more.span("label"))
            label, more = following, _MORE.match(plain, more.end())


def division_levels(query: str, places: Sequence[CitedPlace]) -> list[int]:
    """Return of how many of the divisions that a query cites each place is a part.

    Places are in order of relevance. A place is a part of a division if one of its headings begins with it, however its
    number is written, or a heading in its text does. Those count whose document is called as the query calls the
    law, in short: `Anlage 1 HGB`. Where it names none so, of several documents that have one, that one counts whose
    name has most words of the query; of equal ones the first.
    """
    levels = [0] * len(places)
    asked = list(islice(dict.fromkeys(_citations(query)), MAX_CITED))
    if not asked:
        return levels
    kinds = {division.kind for division, _ in asked}
    headed = [frozenset(_headings_of(place, kinds)) for place in places]
    called = called_in(query, places)
    for division, law in asked:
        within = [place for place, held in enumerate(headed) if division in held]
        for place in of_law(within, law, places) if law else of_one_document(within, places, called):
            levels[place] += 1
    return levels


def _headings_of(place: CitedPlace, kinds: Collection[str]) -> Iterator[Division]:
    """Yield the divisions of these kinds, perhaps also others, with which headings of a place begin."""
    for heading in place.headings:
        if found := _HEADING.match(with_plain_signs(heading)):
            yield division_of(found)
    if any(may_name(place.text, kind) for kind in kinds):
        yield from map(division_of, line_matches(_LINE, with_plain_signs(place.text)))
