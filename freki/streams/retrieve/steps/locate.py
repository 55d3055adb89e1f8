"""Read the places of hits in their documents, and look whether hits may still be shown once all around them is read."""

from collections.abc import Callable, Collection
from dataclasses import replace

from freki.schemas.index import CommitId, Root
from freki.schemas.names import extended
from freki.streams.retrieve.budget.attempts import RECHECK, Attempts
from freki.streams.retrieve.candidates import LocatedHit, LocatedHits, Selection
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.live import LiveDocument, fresh_s, is_recent, may_send, read_around, read_standing

STEP = "locate"


async def locate(stores: Stores, attempts: Attempts, query: EmbeddedQuery, selection: Selection) -> LocatedHits:
    """Add the entries of the manifest around each hit; hits of a revision that was swept meanwhile are lost."""
    placed = [(each.chunk_id, each.document) for each in selection.found]
    with timed([query.log], STEP, lambda _: len(placed)):
        left_s = fresh_s((document for _, document in placed), now_ns=query.log.clock_ns())
        around = await attempts([query], STEP, read_around(stores, placed), fresh_s=left_s) or {}
    hits = [extended(LocatedHit, each, near=around.get(each.root.root_id, ())) for each in selection.found]
    there = [each for each in hits if any(entry.chunk_id == each.chunk_id for entry in each.near)]
    is_lost = selection.is_stale or len(there) < len(hits)
    located: LocatedHits = extended(LocatedHits, selection, found=hits, is_lost=is_lost)
    return located.keep_only(STEP, "its place in the document was not read", there)


async def still_standing(stores: Stores, attempts: Attempts, query: EmbeddedQuery, hits: LocatedHits) -> LocatedHits:
    """Read roots again if that was some time ago; hits and duplicates of a revision that was replaced are lost.

    Returns `hits` itself if none is lost. A model may rank for seconds, and a process may stand still for minutes.
    If it may have done so during this look, it looks once more, but not again: a store may be as slow each time.
    """
    documents = [each.document for hit in hits.found for each in (hit, *hit.duplicates)]
    if is_recent(documents, now_ns=query.log.clock_ns()):
        return hits
    began_ns = query.log.clock_ns()
    read = await _standing(stores, attempts, query, documents)
    if read and not may_send(began_ns, now_ns=query.log.clock_ns()):
        read = await _standing(stores, attempts, query, documents)
    standing = read or frozenset()
    reason = "its document was replaced meanwhile" if read is not None else "its document may have been replaced"
    return _only(hits, lambda root: root.commit_id in standing, reason)


async def _standing(
    stores: Stores, attempts: Attempts, query: EmbeddedQuery, documents: Collection[LiveDocument]
) -> frozenset[CommitId] | None:
    with timed([query.log], RECHECK, lambda _: len(documents)):
        return await attempts([query], RECHECK, read_standing(stores, documents))


def still_allowed(query: EmbeddedQuery, hits: LocatedHits) -> LocatedHits:
    """Leave out hits and duplicates that the answer may not have by what objections say now; those are lost.

    Returns `hits` itself if none is lost. query: as of now; the documents were searched for before a model ranked them.
    """
    return _only(hits, query.may_show, "the asker may not have it any more")


def _only(hits: LocatedHits, is_kept: Callable[[Root], bool], reason: str) -> LocatedHits:
    """Keep hits and duplicates of some documents."""
    there = [
        replace(hit, duplicates=tuple(each for each in hit.duplicates if is_kept(each.root)))
        for hit in hits.found
        if is_kept(hit.root)
    ]
    # A hit is lost as a whole, or some of its duplicates are.
    if [len(each.duplicates) for each in there] == [len(each.duplicates) for each in hits.found]:
        return hits
    is_lost = hits.is_lost or len(there) < len(hits.found)
    return replace(hits, is_lost=is_lost).keep_only(RECHECK, reason, there)
