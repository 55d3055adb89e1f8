"""Read the places of hits in their documents."""

from freki.schemas.names import extended
from freki.streams.retrieve.budget.attempts import Attempts
from freki.streams.retrieve.candidates import LocatedHit, LocatedHits, Selection
from freki.streams.retrieve.dependencies import Stores
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.steps.live import read_around

STEP = "locate"


async def locate(stores: Stores, attempts: Attempts, query: EmbeddedQuery, selection: Selection) -> LocatedHits:
    """Add the entries of the manifest around each hit; hits of a revision that was replaced meanwhile are lost."""
    placed = [(each.chunk_id, each.document) for each in selection.found]
    with timed([query.log], STEP, lambda _: len(placed)):
        around = await attempts([query], STEP, read_around(stores, placed, now_ns=query.log.clock_ns())) or {}
    hits = [extended(LocatedHit, each, near=around.get(each.root.root_id, ())) for each in selection.found]
    there = [each for each in hits if any(entry.chunk_id == each.chunk_id for entry in each.near)]
    is_lost = selection.is_stale or len(there) < len(hits)
    located: LocatedHits = extended(LocatedHits, selection, found=hits, is_lost=is_lost)
    return located.keep_only(STEP, "its place in the document was not read", there)
