"""Reads chunks that a query names, by the same rights and the same live check as those that are searched for."""

from collections.abc import Mapping, Sequence

from freki.operators.augment import first_leaf
from freki.operators.identify import root_id
from freki.schemas import ChunkId, NoticeKind, RootId, may_read
from freki.streams.ports import ChunkRows, ChunkSearch, Roots
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.query_state import QueryState, Ranked, ScoredChunk, timed
from freki.streams.retrieve.steps.live import LiveDocument, read_live
from freki.streams.retrieve.steps.search import scope_of

# No search scored what is asked for by name.
SCORE = 1.0


class ChunkReader:
    """Takes all queries and makes one call of the store a step."""

    def __init__(self, *, search: ChunkSearch, rows: ChunkRows, roots: Roots, attempts: Attempts) -> None:
        self._search = search
        self._rows = rows
        self._roots = roots
        self._attempts = attempts

    async def __call__(self, states: list[QueryState]) -> None:
        """Find the chunks in the order in which they are named; say of the others no more than that."""
        for state in states:
            state.found = []
        with timed(states, "read", lambda state: len(state.found)):
            await self._attempts(states, "read", self._read(states))

    async def _read(self, states: list[QueryState]) -> None:
        beginnings = await self._beginnings(states)
        wanted = [_wanted(state, beginnings) for state in states]
        visible = await self._search.visible(wanted, [scope_of(state) for state in states])
        ranked = [
            [Ranked(chunk_id, seen[chunk_id], SCORE, None, None, 0) for chunk_id in chunk_ids if chunk_id in seen]
            for chunk_ids, seen in zip(wanted, visible, strict=True)
        ]
        every = [each for some in ranked for each in some]
        live = await read_live(self._roots, every)
        placed = [_there(state, some, live) for state, some in zip(states, ranked, strict=True)]
        rows = await self._rows.fetch(list(dict.fromkeys(found.row_id for there in placed for found in there)))
        for state, there in zip(states, placed, strict=True):
            state.found = [found for found in there if found.row_id in rows]
            state.roots.update((found.root.root_id, found.root) for found in state.found)
            state.loaded = {found.chunk_id: rows[found.row_id] for found in state.found}
            state.replaced = len(state.found) < len(there)
            for found in state.found:
                found.row, found.vector = rows[found.row_id]
            _tell_missing(state, beginnings)

    async def _beginnings(self, states: list[QueryState]) -> Mapping[RootId, ChunkId]:
        """Find the first chunk of each document that is named, where somebody who names it may read it."""
        named = list(dict.fromkeys(key for state in states for key in _documents(state).values()))
        roots = await self._roots.roots(named) if named else {}
        first_pages = {
            key: root.pages[0]
            for key, root in roots.items()
            if root.pages
            and any(
                may_read(state.query.principals, root.principals)
                for state in states
                if key in _documents(state).values()
            )
        }
        pages = await self._roots.pages(list(first_pages.values())) if first_pages else {}
        return {
            key: first
            for key, page_id in first_pages.items()
            if page_id in pages and (first := first_leaf(pages[page_id].entries)) is not None
        }


def _documents(state: QueryState) -> dict[str, RootId]:
    return {document: root_id(state.query.tenant, document) for document in state.query.document_ids}


def _wanted(state: QueryState, beginnings: Mapping[RootId, ChunkId]) -> list[ChunkId]:
    firsts = [beginnings[key] for key in _documents(state).values() if key in beginnings]
    return list(dict.fromkeys([*state.query.chunk_ids, *firsts]))


def _there(state: QueryState, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument]) -> list[ScoredChunk]:
    """Keep what is live and what the asker may read; the root decides, for rows are rewritten before it."""
    documents = [(each.chunk_id, live.get(each.root_id)) for each in ranked]
    return [
        ScoredChunk(chunk_id, document, fused=SCORE, score=SCORE)
        for chunk_id, document in documents
        if document is not None
        and chunk_id in document.places
        and may_read(state.query.principals, document.root.principals)
    ]


def _tell_missing(state: QueryState, beginnings: Mapping[RootId, ChunkId]) -> None:
    """Name what is not there: in the same words whether it is unknown, gone, filtered out, or nobody's to read."""
    found = {each.chunk_id for each in state.found}
    missing: list[str] = [chunk_id for chunk_id in state.query.chunk_ids if chunk_id not in found]
    missing += [document for document, key in _documents(state).items() if beginnings.get(key) not in found]
    state.notices = [notice for notice in state.notices if notice.stage != "read"]
    if missing:
        message = (
            f"nothing that can be read is named {', '.join(missing)}; ids of chunks change with the text: search again"
        )
        state.notice("read", NoticeKind.DROPPED, message)
