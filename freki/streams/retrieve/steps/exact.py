"""Keep candidates with a quoted phrase, and put those first that have designations or norms of the query."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from freki.operators.analyse_query import (
    CitedPlace,
    absent_designations,
    citation_levels,
    clause_places,
    division_levels,
    holds,
    is_short,
    names_document,
    words_of,
)
from freki.operators.mention_evidence import mention_evidence
from freki.schemas import ChunkId, NoticeKind
from freki.streams.retrieve.candidates import LoadedCandidates, LoadedChunk, Selection
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.query_log import timed

STEP = "exact"
CITED = "cited"
NAMED_EVIDENCE = 2.0
"""Log-odds of a candidate whose document the query names by its short name, and of one that mentions the abbreviation
that the query is; 1 to 4 make nearly the same order."""


def apply_exact(query: ParsedQuery, candidates: LoadedCandidates) -> LoadedCandidates:
    """Keep candidates with a quoted phrase, and put those first that mention designations which few others mention.

    Vectors hardly tell one designation from the next. Candidates of documents that the query names by their short names
    come first likewise.
    """
    named = _named(query, candidates.found)
    if not (query.quoted or query.sought_designations or named):
        return candidates
    with timed([query.log], STEP, lambda _: len(candidates.found)):
        return _mentioning_first(query, _keep_quoted(query, candidates), named)


def _mentioning_first(
    query: ParsedQuery, candidates: LoadedCandidates, of_named: Collection[ChunkId]
) -> LoadedCandidates:
    """Put the candidates first that mention what the query names, so that a reranker reads them.

    of_named: candidates of documents that the query names.
    """
    found = candidates.found
    evidence = _evidence(query, found, of_named)
    if not evidence.any():
        return candidates
    order = np.argsort(-evidence, kind="stable")
    weighed = [replace(found[place], mentions=float(evidence[place])) for place in order]
    return replace(candidates, found=weighed).after(STEP)


def _evidence(query: ParsedQuery, found: Sequence[LoadedChunk], of_named: Collection[ChunkId]) -> NDArray[np.float64]:
    """Return the log-odds, (candidates,), of what each mentions, and of being of a document that the query names."""
    named = query.sought_designations
    mentioned = _mentioned(named, found)
    asked = np.array([name == query.abbreviation for name in named], np.bool_)
    is_named = np.array([each.chunk_id in of_named for each in found], np.bool_)
    evidence: NDArray[np.float64] = NAMED_EVIDENCE * (is_named | mentioned[asked].any(axis=0)) + mention_evidence(
        mentioned
    )
    return evidence


def named_first(query: ParsedQuery, found: Sequence[LoadedChunk]) -> list[int]:
    """Return the places of candidates in the order of how much each has of what the query quotes, cites and names.

    Texts may be the same, or nearly, and headings and names of documents differ: of two laws that end alike, a query
    names one.
    """
    holds_it = [bool(query.quoted) and holds_quoted(query, each) for each in found]
    levels = _cited_levels(query, found) if query.puts_cited_first else [0] * len(found)
    evidence = _evidence(query, found, _named(query, found)).tolist()
    return sorted(range(len(found)), key=lambda place: (-holds_it[place], -levels[place], -evidence[place]))


def _mentioned(named: Sequence[str], found: Sequence[LoadedChunk]) -> NDArray[np.bool_]:
    """Return which candidate mentions which name, (names, candidates)."""
    absent = [absent_designations(named, texts_of(each)) for each in found]
    rows = [[name not in missing for missing in absent] for name in named]
    return np.array(rows, np.bool_).reshape(len(named), len(found))


def _named(query: ParsedQuery, found: Sequence[LoadedChunk]) -> set[ChunkId]:
    """Return the candidates of documents that the query names by their short names."""
    if not (query.options.exact and is_short(query.text)):
        return set()
    words = words_of(query.text)
    titles = {each.chunk_id: (each.root.name, *each.row.heading_path[:1]) for each in found}
    named = {each for each in set(titles.values()) if names_document(words, each)}
    return {chunk_id for chunk_id, each in titles.items() if each in named}


def _keep_quoted(query: ParsedQuery, candidates: LoadedCandidates) -> LoadedCandidates:
    """Drop candidates without any of the quoted phrases; if none has one, keep all and add a notice.

    One phrase is enough: phrases that are quoted to be compared seldom stand in one place.
    """
    quoted, found = query.quoted, candidates.found
    if not quoted:
        return candidates
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
    levels = _cited_levels(query, selection.found)
    order = sorted(range(len(levels)), key=lambda place: -levels[place])
    return replace(selection, found=[selection.found[place] for place in order]).after(CITED)


def _cited_levels(query: ParsedQuery, found: Sequence[LoadedChunk]) -> list[int]:
    """Return how much each chunk is what the query cites; 0: not."""
    places = _places(found)
    levels = citation_levels(query.text, places)
    divisions = division_levels(query.text, places)
    clauses = clause_places(query.text, places, inside=np.flatnonzero(divisions).tolist())
    # `Anlage 1 Nr. 2.3` and `§ 5 in Teil 2` are cited by both.
    return [level + (place in clauses) + divisions[place] for place, level in enumerate(levels)]


def has_cited_clause(query: ParsedQuery, chunks: Sequence[LoadedChunk]) -> bool:
    """Return whether one of the chunks holds a clause, or is of a division, that the query cites."""
    places = _places(chunks)
    return bool(clause_places(query.text, places, surely=True)) or any(division_levels(query.text, places))


def _places(chunks: Sequence[LoadedChunk]) -> list[CitedPlace]:
    return [CitedPlace(each.root.root_id, each.root.name, each.row.heading_path, each.row.text) for each in chunks]


def texts_of(chunk: LoadedChunk) -> tuple[str, ...]:
    """Return the texts in which words of a query count as found: the chunk's, its context, its name, its headings."""
    return (chunk.row.text, chunk.row.context, chunk.root.name, *chunk.row.heading_path)
