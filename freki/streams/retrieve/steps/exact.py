"""Keep candidates that hold a phrase that the query quotes, and put cited norms first."""

from collections.abc import Sequence
from dataclasses import replace

from freki.operators.analyse_query import CitedPlace, citation_levels, clause_places, division_levels, holds
from freki.schemas import NoticeKind
from freki.streams.retrieve.candidates import LoadedCandidates, LoadedChunk, Selection
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.query_log import timed

STEP = "exact"
CITED = "cited"


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
    return holds(texts_of(chunk), *query.quoted)


def cited_first(query: ParsedQuery, selection: Selection) -> Selection:
    """Put the chunks first that the query cites, as in `§ 3 NetzDG`, `Ziffer 5.2` and `Anlage 3`; others stay in order.

    Vectors hardly tell § 3 from § 3e, nor one clause from the next.
    """
    if not query.puts_cited_first:
        return selection
    found = selection.found
    places = _places(found)
    levels = citation_levels(query.text, places)
    clauses = clause_places(query.text, places)
    divisions = division_levels(query.text, places)
    # `Anlage 1 Nr. 2.3` and `§ 5 in Teil 2` are cited by both.
    order = sorted(range(len(found)), key=lambda place: -(levels[place] + (place in clauses) + divisions[place]))
    return replace(selection, found=[found[place] for place in order]).after(CITED)


def has_cited_clause(query: ParsedQuery, chunks: Sequence[LoadedChunk]) -> bool:
    """Return whether one of the chunks holds a clause, or is of a division, that the query cites."""
    places = _places(chunks)
    return bool(clause_places(query.text, places)) or any(division_levels(query.text, places))


def _places(chunks: Sequence[LoadedChunk]) -> list[CitedPlace]:
    return [CitedPlace(each.root.root_id, each.root.name, each.row.heading_path, each.row.text) for each in chunks]


def texts_of(chunk: LoadedChunk) -> tuple[str, ...]:
    """Return the texts in which words of a query count as found: the chunk's, its context, its name, its headings."""
    return (chunk.row.text, chunk.row.context, chunk.root.name, *chunk.row.heading_path)
