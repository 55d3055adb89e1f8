"""Keep candidates that hold a phrase that the query quotes, put cited norms first, and find what no hit names."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from freki.operators.analyse_query import (
    MAX_NORMS,
    CitedPlace,
    absent_designations,
    absent_norms,
    citation_levels,
    cited_norms,
    designations,
    holds,
)
from freki.schemas import ContextHit, NoticeKind, Widening
from freki.streams.retrieve.candidates import LoadedCandidates, LoadedChunk, LocatedHits, Selection
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.cover import absent_days, absent_names

STEP = "exact"
CITED = "cited"
MAX_QUESTION_WORDS = 32
"""Longer texts, such as letters and logs, have numbers and dates that decide nothing."""


def keep_exact(query: ParsedQuery, candidates: LoadedCandidates) -> LoadedCandidates:
    """Drop candidates without any of the quoted phrases; if none has one, keep all and add a notice.

    One phrase is enough: phrases that are quoted to be compared seldom stand in one place.
    """
    quoted, found = query.quoted, candidates.found
    if not quoted or not found:
        return candidates
    with timed([query.log], STEP, lambda _: len(found)):
        kept = [each for each in found if holds_quoted(query, each)]
    if not kept:
        phrases = ", ".join(f"„{phrase}“" for phrase in quoted)
        query.log.notice(STEP, NoticeKind.UNMET, f"none of the {len(found)} best candidates holds {phrases}")
        return candidates
    if len(kept) == len(found):
        return candidates
    message = f"{len(found) - len(kept)} candidates lack what the query quotes"
    query.log.notice(STEP, NoticeKind.DROPPED, message)
    return candidates.keep_only(STEP, "it lacks what the query quotes", kept).after(STEP)


def holds_quoted(query: ParsedQuery, chunk: LoadedChunk) -> bool:
    """Return whether a chunk holds one of the phrases that the query quotes."""
    return any(holds(texts_of(chunk), phrase) for phrase in query.quoted)


def cited_first(query: ParsedQuery, selection: Selection) -> Selection:
    """Put the chunks first that the query cites, as in `§ 3 Abs. 2 NetzDG`; all others stay in their order.

    Vectors hardly tell § 3 from § 3e, nor one clause from the next.
    """
    if not query.puts_cited_first:
        return selection
    found = selection.found
    places = [CitedPlace(each.root.root_id, each.root.name, each.row.heading_path, each.row.text) for each in found]
    levels = citation_levels(query.text, places)
    order = sorted(range(len(found)), key=lambda place: -levels[place])
    return replace(selection, found=[found[place] for place in order]).after(CITED)


def note_absent(query: ParsedQuery, found: LocatedHits, hits: Sequence[ContextHit]) -> bool:
    """Add a notice of what the query names that no hit has, nor its surroundings; return whether all hits are doubtful.

    They are if they lack each of its norms, or any designation, day or name. Scores compare meanings, and find
    `§ 4711 BGB` like any section of this law, and `PEP 3107` like any PEP.
    """
    if query.is_read or not hits:
        return False
    chunks = found.found
    cited = list(islice(dict.fromkeys(cited_norms(query.text)), MAX_NORMS)) if query.names_norm else []
    is_question = len(query.text.split()) <= MAX_QUESTION_WORDS
    named = designations(query.text, query.analysis.exact)
    texts = [text for each in chunks for text in texts_of(each)]
    texts += [part.text for hit in hits for part in (*hit.before, *([hit.parent] if hit.parent else []), *hit.after)]
    headings = [heading for each in chunks for heading in each.row.heading_path]
    norms = absent_norms(cited, texts, headings) if cited else ()
    spelt = [each.variant.text for each in found.search.variants if each.variant.kind is Widening.SPELLING]
    others: list[str] = []
    if is_question:
        others += [*absent_designations(named, texts), *absent_days(query, texts)]
        others += [
            name for name in absent_names(query, chunks, texts, spelt) if not any(name in each for each in others)
        ]
    if norms or others:
        message = f"no hit names {', '.join([*(each.text for each in norms), *others])}"
        query.log.notice(STEP, NoticeKind.UNMET, message)
    return bool(others) or (bool(norms) and len(norms) == len(cited))


def texts_of(chunk: LoadedChunk) -> tuple[str, ...]:
    """Return the texts in which words of a query count as found: the chunk's, its context, its name, its headings."""
    return (chunk.row.text, chunk.row.context, chunk.root.name, *chunk.row.heading_path)
