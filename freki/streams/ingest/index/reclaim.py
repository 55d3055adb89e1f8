"""Deletion of orphaned rows: of processes that died or resumed late, and of abandoned revisions."""

from collections.abc import AsyncIterator, Callable

from freki.schemas import RootId, Timestamp
from freki.streams.batches import batched
from freki.streams.hash_set import HashSet
from freki.streams.ingest.index.commit import Committer
from freki.streams.ports import WholeIndex
from freki.streams.topics import DAY_MS, WORK_MS

DOCUMENTS = 50
"""Documents per sweep."""
ABANDONED_MS = WORK_MS + DAY_MS
"""Age of abandoned attempts, in milliseconds: topics keep parts for seven days, and no worker pauses for a day."""


async def reclaim(index: WholeIndex, committer: Committer, *, now: Callable[[], Timestamp]) -> int:
    """Sweep every document once; return the number of deleted rows. Safe concurrently with workers and with itself."""
    before = Timestamp(max(0, now() - ABANDONED_MS))
    # Of the whole index, several times a day: of two with the same hash one is swept by the next run.
    swept = HashSet()
    removed = 0
    async for keys in _batches(index):
        todo = [key for key in dict.fromkeys(keys) if key not in swept]
        swept.update(todo)
        for at in range(0, len(todo), DOCUMENTS):
            done = await committer.sweep(todo[at : at + DOCUMENTS], abandoned_before=before)
            removed += sum(each.removed for each in done.values())
    return removed


async def _batches(index: WholeIndex) -> AsyncIterator[list[RootId]]:
    """Yield the ids of all documents with a root, then of all documents with rows."""
    async for roots in batched(index.all_roots(), DOCUMENTS):
        yield [root.root_id for root in roots]
    async for rows in index.all_rows():
        yield [root_id for root_id, _ in rows]
