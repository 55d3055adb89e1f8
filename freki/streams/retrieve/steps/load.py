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
    loaded = [
        _folded(_loaded(live, fetched), query.options.fold_at) for query, live in zip(queries, found, strict=True)
    ]
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


def _folded(candidates: LoadedCandidates, likeness: float) -> LoadedCandidates:
    """Let the best of several candidates with the same text represent all; all are live and readable."""
    found = candidates.found
    represented_by = fold([each.row.text for each in found], likeness=likeness)
    duplicates: dict[int, list[LoadedChunk]] = {}
    for place, best in enumerate(represented_by):
        if best != place:
            duplicates.setdefault(best, []).append(found[place])
    kept = [
        replace(each, duplicates=tuple(duplicates[place])) if place in duplicates else each
        for place, each in enumerate(found)
        if represented_by[place] == place
    ]
    return candidates.keep_only(STEP, "a better candidate says the same", kept).after(STEP)
