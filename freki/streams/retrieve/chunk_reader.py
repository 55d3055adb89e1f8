"""Read chunks that a query names, by the same access rights and live check as chunks that are searched for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from freki.operators.augment import first_leaf
from freki.operators.identify import root_id
from freki.schemas import ChunkId, NoticeKind, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import ChunkContent, RowId
from freki.schemas.names import extended
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.candidates import (
    NO_RERANKER,
    History,
    LiveChunk,
    LoadedCandidates,
    LoadedChunk,
    ScoredChunk,
    Selection,
)
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery, ParsedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.search_result import SearchedVariant, SearchResult, variant_of
from freki.streams.retrieve.steps.live import MAX_ROOT_AGE_S, LiveDocument, read_live

STEP = "read"
SCORE = 1.0
"""Score of a chunk that is named: no search scored it."""


class ChunkReader:
    """Reads for several queries, with one call of the store for each kind of rows."""

    def __init__(self, stores: Stores, attempts: Attempts) -> None:
        self._stores = stores
        self._attempts = attempts

    async def __call__(self, queries: Sequence[EmbeddedQuery]) -> list[LoadedCandidates]:
        """Return the chunks in the order in which they are named, and notices of those that cannot be read."""
        found = [_candidates(query, ()) for query in queries]
        with timed([query.log for query in queries], STEP, lambda place: len(found[place].found)):
            found = await self._attempts(queries, STEP, self._read(queries), fresh_s=MAX_ROOT_AGE_S) or found
        return found

    async def _read(self, queries: Sequence[EmbeddedQuery]) -> list[LoadedCandidates]:
        """Read, once more if documents changed in between.

        Within the step: rows that are left behind look like a change, and would show up in the steps of those who may
        not read what replaced them.
        """
        found, has_moved = await self._read_once(queries)
        return (await self._read_once(queries))[0] if has_moved else found

    async def _read_once(self, queries: Sequence[EmbeddedQuery]) -> tuple[list[LoadedCandidates], bool]:
        """Return the chunks of each query; the flag is True if some were replaced meanwhile, as far as is seen."""
        beginnings = await self._beginnings(queries)
        firsts = [_Seen(chunk_id, key) for key, chunk_id in beginnings.items() if chunk_id is not None]
        wanted = [_wanted(query, beginnings) for query in queries]
        visible = await self._stores.search.visible(wanted, [query.scope for query in queries])
        seen = [
            {chunk_id: roots[chunk_id] for chunk_id in chunk_ids if chunk_id in roots}
            for chunk_ids, roots in zip(wanted, visible, strict=True)
        ]
        now_ns = queries[0].log.clock_ns()
        sought = [*firsts, *(_Seen(*each) for own in seen for each in own.items())]
        live = await read_live(self._stores, sought, now_ns=now_ns)
        placed = [_placed(query, own, live) for query, own in zip(queries, seen, strict=True)]
        rows = await self._stores.rows.contents(list(dict.fromkeys(each.row_id for own in placed for each in own)))
        found = [
            replace(_loaded(query, own, rows), is_stale=any(each.row_id not in rows for each in own))
            for query, own in zip(queries, placed, strict=True)
        ]
        for query, each in zip(queries, found, strict=True):
            _note_missing(query, each, beginnings)
        moved = (each.root_id in live and each.chunk_id not in live[each.root_id].places for each in sought)
        return found, None in beginnings.values() or any(moved)

    async def _beginnings(self, queries: Sequence[ParsedQuery]) -> Mapping[RootId, ChunkId | None]:
        """Return the first chunk of each document that is named by a query whose principals may read it.

        None: its page was swept meanwhile.
        """
        named = list(dict.fromkeys(key for query in queries for key in _documents(query).values()))
        roots = await self._stores.roots.roots(named) if named else {}
        first_pages = {
            key: root.pages[0]
            for key, root in roots.items()
            if root.pages and any(query.may_show(root) for query in queries if key in _documents(query).values())
        }
        pages = await self._stores.roots.pages(list(first_pages.values())) if first_pages else {}
        return {
            key: first_leaf(pages[page_id].entries) if page_id in pages else None
            for key, page_id in first_pages.items()
        }


class _Seen(NamedTuple):
    """A chunk that the principals may see, and its document."""

    chunk_id: ChunkId
    root_id: RootId


def as_named(candidates: LoadedCandidates) -> Selection:
    """Select all chunks in the order in which the query names them."""
    found = [extended(ScoredChunk, each, score=SCORE, judged=0.0) for each in candidates.found]
    return extended(Selection, candidates, found=found, head=(), reranker=NO_RERANKER, best_effort=False)


def _documents(query: ParsedQuery) -> dict[str, RootId]:
    return {document: root_id(query.query.tenant, document) for document in query.query.document_ids}


def _wanted(query: ParsedQuery, beginnings: Mapping[RootId, ChunkId | None]) -> list[ChunkId]:
    firsts = [beginnings.get(key) for key in _documents(query).values()]
    return list(dict.fromkeys([*query.query.chunk_ids, *(first for first in firsts if first is not None)]))


def _placed(query: ParsedQuery, seen: Mapping[ChunkId, RootId], live: Mapping[RootId, LiveDocument]) -> list[LiveChunk]:
    """Keep live and readable chunks; the root decides who may read, since rows are rewritten before it."""
    documents = [(chunk_id, live.get(key)) for chunk_id, key in seen.items()]
    return [
        LiveChunk(chunk_id=chunk_id, document=document, fused=SCORE)
        for chunk_id, document in documents
        if document is not None and chunk_id in document.places and query.may_show(document.root)
    ]


def _loaded(
    query: EmbeddedQuery, placed: Sequence[LiveChunk], rows: Mapping[RowId, tuple[ChunkContent, Floats]]
) -> LoadedCandidates:
    return _candidates(
        query,
        [
            extended(LoadedChunk, each, row=rows[each.row_id][0], vector=rows[each.row_id][1])
            for each in placed
            if each.row_id in rows
        ],
    )


def _candidates(query: EmbeddedQuery, found: Sequence[LoadedChunk]) -> LoadedCandidates:
    search = SearchResult(
        variants=[SearchedVariant(variant=variant_of(query), dense=None, lexical=None)],
        roots={each.root.root_id: each.root for each in found},
        loaded={each.chunk_id: (each.row, each.vector) for each in found},
    )
    return LoadedCandidates(search=search, found=found, history=History())


def _note_missing(
    query: ParsedQuery, candidates: LoadedCandidates, beginnings: Mapping[RootId, ChunkId | None]
) -> None:
    """Name what is missing in the same words whether it is unknown, deleted, filtered out, or not readable."""
    found = {each.chunk_id for each in candidates.found}
    missing: list[str] = [chunk_id for chunk_id in query.query.chunk_ids if chunk_id not in found]
    missing += [document for document, key in _documents(query).items() if beginnings.get(key) not in found]
    query.log.retract(STEP)
    if missing:
        names = ", ".join(missing)
        message = f"nothing that can be read is named {names}; ids of chunks change with the text: search again"
        query.log.notice(STEP, NoticeKind.DROPPED, message)
