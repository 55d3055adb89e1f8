"""Deletion of orphaned rows: of processes that died or resumed late, and of abandoned revisions."""

from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import blake2b

import numpy as np

from freki.schemas import RootId, Timestamp
from freki.streams.ingest.index.commit import Committer
from freki.streams.ports import WholeIndex
from freki.streams.topics import DAY_MS, WORK_MS

DOCUMENTS = 50
"""Documents per sweep."""
_LATEST = 4096
"""Documents that are remembered one by one."""
ABANDONED_MS = WORK_MS + DAY_MS
"""Age of abandoned attempts, in milliseconds: topics keep parts for seven days, and no worker pauses for a day."""


async def reclaim(index: WholeIndex, committer: Committer, *, now: Callable[[], Timestamp]) -> int:
    """Sweep every document once; return the number of deleted rows. Safe concurrently with workers and with itself."""
    before = Timestamp(max(0, now() - ABANDONED_MS))
    swept = _Swept()
    removed = 0
    async for keys in _batches(index):
        todo = [key for key in dict.fromkeys(keys) if key not in swept]
        swept.update(todo)
        for at in range(0, len(todo), DOCUMENTS):
            done = await committer.sweep(todo[at : at + DOCUMENTS], abandoned_before=before)
            removed += sum(each.removed for each in done.values())
    return removed


class _Swept:
    """Which documents were swept, in about 12 bytes each: a worker holds those of the whole index, several times a day.

    It holds hashes. Two of a million documents have the same with a probability of 3e-8: one of them is not swept then.
    """

    def __init__(self) -> None:
        self._sorted = np.empty(0, np.uint64)
        self._latest: set[int] = set()

    def __contains__(self, key: RootId) -> bool:
        hashed = _hash(key)
        place = int(np.searchsorted(self._sorted, np.uint64(hashed)))
        return hashed in self._latest or (place < len(self._sorted) and int(self._sorted[place]) == hashed)

    def update(self, keys: Sequence[RootId]) -> None:
        self._latest.update(map(_hash, keys))
        # A share of the whole, so that there are few merges.
        if len(self._latest) > max(_LATEST, len(self._sorted) // 16):
            latest = np.fromiter(self._latest, np.uint64, len(self._latest))
            self._sorted = np.sort(np.concatenate([self._sorted, latest]))
            self._latest.clear()


def _hash(key: RootId) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest())


async def _batches(index: WholeIndex) -> AsyncIterator[list[RootId]]:
    """Yield the ids of all documents with a root, then of all documents with rows."""
    batch: list[RootId] = []
    async for root in index.all_roots():
        batch.append(root.root_id)
        if len(batch) == DOCUMENTS:
            yield batch
            batch = []
    yield batch
    async for rows in index.all_rows():
        yield [root_id for root_id, _ in rows]
