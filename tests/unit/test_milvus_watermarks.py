"""Of the two rows of a watermark one exists during each write, however many commits a process makes at a time."""

import asyncio
from typing import Any

from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import Layout, Row
from freki.infra.settings import MilvusSettings
from freki.schemas import Timestamp
from freki.schemas.index import Generation, Watermark


class SlowStore:
    """A store that replaces rows by removing and writing them."""

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self.seen: list[set[str]] = []

    async def upsert(self, _: Layout, rows: list[Row]) -> None:
        keys = {row["id"] for row in rows}
        self.rows -= keys
        self.seen.append(set(self.rows))
        await asyncio.sleep(0)
        self.rows |= keys


async def test_commits_at_a_time_write_a_watermark_one_after_the_other() -> None:
    index = MilvusIndex(MilvusSettings(), Generation(name="g1", embedder="fake", dim=4, analyser="plain"))
    store: Any = SlowStore()
    index._store = store
    marks = [
        Watermark(partition=0, occurred_at=Timestamp(at), committed_at=Timestamp(at), commits=0) for at in range(6)
    ]

    await asyncio.gather(*(index.commit([], [mark]) for mark in marks))

    assert len(store.rows) == 2
    assert all(store.seen[1:])
