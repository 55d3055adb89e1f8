"""Fuse rankings, and keep the best candidates that are live and that the principals may read."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from freki.schemas import ChunkId, NoticeKind, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import Candidate, ChunkContent, Rank, Root, RowId
from freki.schemas.names import record
from freki.streams.retrieve.budget.attempts import SHARE, Attempts
from freki.streams.retrieve.candidates import History, LiveChunk
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.search_result import Ranked, SearchedVariant, SearchResult
from freki.streams.retrieve.steps.fuse import fuse
from freki.streams.retrieve.steps.live import MAX_ROOT_AGE_S, LiveDocument, read_live
from freki.streams.retrieve.steps.match import STEP as MATCH
from freki.streams.retrieve.steps.match import match, matched_rows

STEP = "manifest"
NOT_LIVE = "it is not of a live revision"
BEST_BY_WORDS = 25
"""Candidates that are kept for what BM25 found, if the query has parts that count as they are written."""
_LONGER = 4
"""Factor by which each look further down the ranking takes more candidates than the one before."""


Row = tuple[ChunkContent, Floats]
"""A row with its vector."""


@record
class LiveCandidates:
    """Live candidates of a query before their rows are read, best first."""

    search: SearchResult
    found: Sequence[LiveChunk]
    rows: Mapping[RowId, Row]
    """Rows that were read already: of most candidates."""
    history: History
    has_moved: bool
    """Were some candidates replaced? Then the chunks that replaced them may not have been searched."""


async def keep_live(
    stores: Stores,
    attempts: Attempts,
    queries: Sequence[EmbeddedQuery],
    searches: Sequence[SearchResult],
    *,
    late_interaction: bool,
) -> tuple[list[LiveCandidates], bool]:
    """Fuse and match, and take the best live and readable candidates, as many as are wanted.

    The flag is False if live revisions could not be read.
    """
    logs = [query.log for query in queries]
    started_ns = logs[0].clock_ns()
    selections = [
        _LiveSelection(query, search, late_interaction=late_interaction)
        for query, search in zip(queries, searches, strict=True)
    ]
    ended_ns = logs[0].clock_ns()
    await _match(stores, attempts, selections)
    matched_ns = logs[0].clock_ns()
    with timed(logs, STEP, lambda place: len(selections[place].found)):
        is_live = await _take_best(stores, attempts, selections)
        for log, each in zip(logs, selections, strict=True):
            # Counted here, without documents that the principals may not read.
            log.ran("fuse", started_ns, len(each.ranked), ended_ns=ended_ns)
            log.ran("match", ended_ns, each.matched, ended_ns=matched_ns)
    return [each.result() for each in selections], is_live


async def _match(stores: Stores, attempts: Attempts, selections: "Sequence[_LiveSelection]") -> None:
    """Order by late interaction, with one read of all match codes."""
    wanting = [each for each in selections if each.unread]
    if wanting:
        queries = [each.query for each in wanting]
        unread = dict.fromkeys(row_id for each in wanting for row_id in each.unread)
        codes = await attempts(queries, MATCH, stores.rows.match_codes(list(unread)), share=SHARE) or {}
        for each in wanting:
            each.match(codes)


async def _take_best(stores: Stores, attempts: Attempts, selections: "Sequence[_LiveSelection]") -> bool:
    short, is_read = selections, True
    while short:
        # The best candidates are nearly always live, so that looking further down is seldom necessary, and few of
        # what is found there are needed.
        slices = [each.next_slice() for each in short]
        candidates = [each for ranked in slices for each in ranked]
        wanted = candidates if short is selections else ()
        now_ns = short[0].query.log.clock_ns()
        reading = _read(stores, candidates, wanted, now_ns=now_ns)
        found = await attempts([each.query for each in short], STEP, reading, fresh_s=MAX_ROOT_AGE_S)
        if found is None:
            is_read = False
            break
        live, rows = found
        for each, ranked in zip(short, slices, strict=True):
            if each.hide_unreadable(ranked, live):
                await _match(stores, attempts, [each])
            else:
                each.take_live(ranked, live, rows)
        short = [each for each in short if each.is_short]
    for each in selections:
        each.keep_newest()
        if each.dead:
            message = f"{each.dead} candidates are not of a live revision"
            each.query.log.notice(STEP, NoticeKind.DROPPED, message)
    return is_read


async def _read(
    stores: Stores, candidates: Sequence[Ranked], wanted: Sequence[Ranked], *, now_ns: int
) -> tuple[Mapping[RootId, LiveDocument], Mapping[RowId, Row]]:
    """Read live revisions, and at once the wanted rows: they are nearly always those of the live revision."""
    row_ids = list(dict.fromkeys(each.row_id for each in wanted))
    if not row_ids:
        return await read_live(stores, candidates, now_ns=now_ns), {}
    live, rows = await asyncio.gather(
        read_live(stores, candidates, now_ns=now_ns), stores.rows.contents(row_ids), return_exceptions=True
    )
    if isinstance(live, BaseException):
        raise live
    # `load` reads what is missing, and tells if it cannot.
    return live, {} if isinstance(rows, BaseException) else rows


class _LiveSelection:
    """Candidates of one query while live revisions are read."""

    def __init__(self, query: EmbeddedQuery, search: SearchResult, *, late_interaction: bool) -> None:
        self.query = query
        self._late_interaction = late_interaction
        self._codes: dict[RowId, str] = {}
        self._wanted = query.wanted
        self._variants = list(search.variants)
        self._roots = dict(search.roots)
        self._history = History()
        self._start()

    def _start(self) -> None:
        self.ranked, self._alpha = fuse(self.query, self._variants)
        self._order(match(self.query, self.ranked, self._codes) if self._codes else self.ranked)
        self.found: list[LiveChunk] = []
        self.rows: dict[RowId, Row] = {}
        self.dead = 0
        self._has_moved = False
        self._at = 0
        self._length = self._wanted

    @property
    def unread(self) -> list[RowId]:
        """Rows that late interaction compares, and whose codes were not read."""
        compared = matched_rows(self.query, self.ranked) if self._late_interaction else ()
        return [row_id for row_id in compared if row_id not in self._codes]

    def match(self, codes: Mapping[RowId, str]) -> None:
        """Order by late interaction; rows without a code have none."""
        self._codes |= {row_id: codes.get(row_id, "") for row_id in self.unread}
        self._order(match(self.query, self.ranked, self._codes))

    def _order(self, best_first: list[Ranked]) -> None:
        """Set the order of relevance, and the one in which documents are looked up."""
        self._best_first = best_first
        self._looked_up = _best_by_words_first(best_first) if self.query.is_exact else best_first

    def result(self) -> LiveCandidates:
        history = self._history.after(MATCH, self._best_first) if self.matched else self._history
        search = SearchResult(
            variants=tuple(self._variants), ranked=tuple(self.ranked), alpha=self._alpha, roots=self._roots
        )
        return LiveCandidates(
            search=search, found=tuple(self.found), rows=self.rows, history=history, has_moved=self._has_moved
        )

    @property
    def matched(self) -> int:
        """Number of candidates that late interaction scored."""
        return sum(each.matched is not None for each in self._best_first)

    @property
    def is_short(self) -> bool:
        return len(self.found) < self._wanted and self._at < len(self._looked_up)

    def next_slice(self) -> list[Ranked]:
        return self._looked_up[self._at : self._at + self._length]

    def hide_unreadable(self, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument]) -> bool:
        """Remove documents that the answer may not have, and fuse again: they must not move or be counted.

        Rows name readers too, and searches filter by those; while access changes, or if the rewriting of rows was
        cut short, rows and root differ, and the root decides.
        """
        hidden = {
            each.root_id for each in ranked if each.root_id in live and not self.query.may_show(live[each.root_id].root)
        }
        if not hidden:
            return False
        chunk_ids = [each.chunk_id for each in self.ranked if each.root_id in hidden]
        self._variants = [_without(hidden, each) for each in self._variants]
        self._start()
        self._drop("the asker may not have it any more", chunk_ids)
        return True

    def take_live(
        self, ranked: Sequence[Ranked], live: Mapping[RootId, LiveDocument], rows: Mapping[RowId, Row]
    ) -> None:
        """Add live chunks to the candidates; count the others."""
        self.rows.update({each.row_id: rows[each.row_id] for each in ranked if each.row_id in rows})
        dead = []
        for each in ranked:
            document = live.get(each.root_id)
            if document is not None:
                self._roots[each.root_id] = document.root
            if document is None or each.chunk_id not in document.places:
                dead.append(each.chunk_id)
                self._has_moved |= document is not None and _is_replaced(each, document.root)
            elif len(self.found) < self._wanted and not self._has_share(each.root_id):
                self.found.append(_live_chunk(each, document))
        self._drop(NOT_LIVE, dead)
        self.dead += len(dead)
        self._at += len(ranked)
        # A large document that is being indexed may have many candidates, none of which is live yet.
        self._length *= _LONGER

    def keep_newest(self) -> None:
        """Keep one revision of each document, if several were live while candidates were looked up."""
        newest: dict[RootId, Rank] = {}
        for each in self.found:
            newest[each.root.root_id] = max(newest.get(each.root.root_id, each.root.rank), each.root.rank)
        older = [each.chunk_id for each in self.found if each.root.rank < newest[each.root.root_id]]
        self._drop(NOT_LIVE, older)
        places = {each.chunk_id: place for place, each in enumerate(self._best_first)}
        self.found = [each for each in self.found if each.root.rank == newest[each.root.root_id]]
        self.found.sort(key=lambda each: places[each.chunk_id])
        self.dead += len(older)
        self._has_moved |= bool(older)

    def _has_share(self, root_id: RootId) -> bool:
        """Return whether a document with a maximum of hits has its share of the candidates."""
        options = self.query.options
        share = max(options.per_document, self._wanted * options.per_document // options.top_k)
        return 0 < share <= sum(each.root.root_id == root_id for each in self.found)

    def _drop(self, reason: str, chunk_ids: Sequence[ChunkId]) -> None:
        self._history = self._history.dropping(STEP, reason, chunk_ids)


def _best_by_words_first(best_first: Sequence[Ranked]) -> list[Ranked]:
    """Put those first that BM25 found best: late interaction hardly tells one number from the next."""
    found = sorted((each for each in best_first if each.lexical), key=lambda each: -(each.lexical or 0.0))
    return list(dict.fromkeys([*found[:BEST_BY_WORDS], *best_first]))


def _is_replaced(found: Ranked, root: Root) -> bool:
    """Tell whether a row that is not live is of no later revision than the live one.

    A later one is not committed yet: all of the live one could be found.
    """
    return (found.version, found.edition) <= (root.version, root.edition)


def _live_chunk(ranked: Ranked, document: LiveDocument) -> LiveChunk:
    return LiveChunk(
        chunk_id=ranked.chunk_id,
        document=document,
        fused=ranked.fused,
        dense=ranked.dense,
        lexical=ranked.lexical,
        variant=ranked.variant,
        matched=ranked.matched,
    )


def _without(hidden: Collection[RootId], searched: SearchedVariant) -> SearchedVariant:
    def visible(ranking: Sequence[Candidate] | None) -> Sequence[Candidate] | None:
        return None if ranking is None else [hit for hit in ranking if hit.root_id not in hidden]

    return replace(searched, dense=visible(searched.dense), lexical=visible(searched.lexical))
