"""Load rows and vectors of live candidates, and fold candidates with the same text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from freki.operators.fold import fold
from freki.schemas.arrays import Floats
from freki.schemas.index import ChunkContent, RowId
from freki.schemas.names import extended
from freki.streams.ports import ReadableRows
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.candidates import LoadedCandidates, LoadedChunk
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.exact import named_first
from freki.streams.retrieve.steps.keep_live import LiveCandidates
from freki.streams.retrieve.steps.live import fresh_s

STEP = "load"


async def load(
    rows: ReadableRows, attempts: Attempts, queries: Sequence[EmbeddedQuery], found: Sequence[LiveCandidates]
) -> tuple[list[LoadedCandidates], bool]:
    """Read the rows of all candidates that were not read yet, in one call; the flag is False if that failed."""
    missing = [[each.row_id for each in live.found if each.row_id not in live.rows] for live in found]
    row_ids = list(dict.fromkeys(row_id for own in missing for row_id in own))
    wanting = [query for query, own in zip(queries, missing, strict=True) if own]
    with timed([query.log for query in queries], STEP, lambda place: len(found[place].found)):
        documents = (each.document for live in found for each in live.found)
        left_s = fresh_s(documents, now_ns=queries[0].log.clock_ns())
        fetched = await attempts(wanting, STEP, rows.contents(row_ids), fresh_s=left_s) if row_ids else {}
    loaded = [_folded(query, _loaded(live, fetched)) for query, live in zip(queries, found, strict=True)]
    return loaded, fetched is not None


def _loaded(live: LiveCandidates, fetched: Mapping[RowId, tuple[ChunkContent, Floats]] | None) -> LoadedCandidates:
    rows = {**live.rows, **(fetched or {})}
    there = [chunk for chunk in live.found if chunk.row_id in rows]
    gone = [chunk.chunk_id for chunk in live.found if chunk.row_id not in rows]
    return LoadedCandidates(
        search=replace(live.search, loaded={chunk.chunk_id: rows[chunk.row_id] for chunk in there}),
        found=[
            extended(LoadedChunk, chunk, row=rows[chunk.row_id][0], vector=rows[chunk.row_id][1]) for chunk in there
        ],
        history=live.history.dropping(STEP, "its row was not read", gone),
        is_stale=fetched is not None and bool(gone),
    )


def _folded(query: EmbeddedQuery, candidates: LoadedCandidates) -> LoadedCandidates:
    """Let one of several candidates with the same text represent all; all are live and readable.

    That is the best of those that have most of what the query names: a law, where several have the same sentence.
    """
    order: Sequence[int] = range(len(candidates.found))
    represented_by = _fold(query, candidates.found)
    if len(set(represented_by)) < len(order):
        order = named_first(query, candidates.found)
        represented_by = _fold(query, [candidates.found[place] for place in order])
    found = [candidates.found[place] for place in order]
    like: dict[int, list[int]] = {}
    for place, best in enumerate(represented_by):
        like.setdefault(best, []).append(place)
    kept = {order[best]: _representing(found[best], [found[place] for place in own[1:]]) for best, own in like.items()}
    in_place = [kept[place] for place in sorted(kept)]
    return candidates.keep_only(STEP, "a better candidate says the same", in_place).after(STEP)


def _fold(query: EmbeddedQuery, found: Sequence[LoadedChunk]) -> list[int]:
    return fold([each.row.text for each in found], likeness=query.options.fold_at)


def _representing(best: LoadedChunk, others: Sequence[LoadedChunk]) -> LoadedChunk:
    """Return the best of several like candidates with the others as its duplicates, and scored as they are."""
    if not others:
        return best
    # It may be found too far down to be compared, unlike the others.
    scores = (each.matched for each in (best, *others) if each.matched is not None)
    return replace(best, duplicates=tuple(others), matched=next(scores, None))
