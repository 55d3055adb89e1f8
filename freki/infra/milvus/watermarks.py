"""Watermarks: up to two rows per committing process and partition, merged when they are read."""

import asyncio
from collections.abc import Iterable
from dataclasses import fields, replace
from uuid import uuid4

from freki.infra.milvus.keys import checked_key
from freki.infra.milvus.layout import PLACEHOLDER, Row
from freki.schemas import Timestamp
from freki.schemas.index import Watermark

IDLE_MS = 24 * 60 * 60 * 1000
"""Time without a commit, in milliseconds, after which the watermark of a process is taken over by another one."""
_RENEWED_MS = IDLE_MS // 2
"""Time without a commit, in milliseconds, after which a process begins another watermark: the one before may be taken
over soon, and would then count again with its next commit. Clocks of processes differ by less than the rest."""
WATERMARK = "watermark"
"""Value of the column `record` of a watermark."""


def watermark_key(partition: int) -> str:
    """Return the key of the watermarks of a partition."""
    return f"watermark-{partition}"


def watermark_row(watermark: Watermark, *, writer: str) -> Row:
    """Return the row of a watermark. Each writer alternates between two rows, so that one exists during each write."""
    key = watermark_key(watermark.partition)
    return {
        "id": f"{key}:{checked_key(writer)}:{watermark.commits % 2}",
        "key": key,
        "record": WATERMARK,
        "tenant": "",
        "document_id": "",
        "fingerprint": "",
        "deleted": False,
        "searchable_at": watermark.committed_at,
        "body": {field.name: getattr(watermark, field.name) for field in fields(Watermark)},
        "attributes": {},
        "placeholder": PLACEHOLDER,
    }


class WatermarkWriter:
    """The last written watermarks of this process, each under a key of its own."""

    def __init__(self) -> None:
        self.writing = asyncio.Lock()
        """To be held from `advanced` or `added` until the rows are written: two writes at once could hide both rows."""
        self._keys: dict[int, str] = {}
        self._last: dict[int, Watermark] = {}

    def row(self, watermark: Watermark) -> Row:
        """Return the row of a watermark of this process."""
        return watermark_row(watermark, writer=self._keys[watermark.partition])

    def wrote(self, key: str) -> bool:
        """Return whether this process writes the rows with this key of `writer_of`."""
        return key.rpartition(":")[2] in self._keys.values()

    def is_in_use(self, partition: int, *, now: Timestamp) -> bool:
        """Return whether this process has committed changes of a partition lately."""
        last = self._last.get(partition)
        return last is not None and now - last.committed_at < _RENEWED_MS

    def advanced(self, mark: Watermark) -> Watermark:
        """Return the next watermark of this process: one more commit, and no time before the previous one."""
        before = self._last.get(mark.partition)
        if before is None or mark.committed_at - before.committed_at >= _RENEWED_MS:
            self._keys[mark.partition], before = uuid4().hex, mark
        after = farthest([replace(before, commits=before.commits + 1), replace(mark, commits=0)])[mark.partition]
        self._last[mark.partition] = after
        return after

    def added(self, theirs: Watermark) -> Watermark:
        """Return the sum of a watermark and that of this process, plus one commit if its rows would not alternate.

        The one of this process is in use.
        """
        turn = 1 if theirs.commits % 2 == 0 else 0
        total = farthest([self._last[theirs.partition], theirs, replace(theirs, commits=turn)])[theirs.partition]
        self._last[theirs.partition] = total
        return total


def writer_of(row: Row) -> str:
    """Return the common part of the keys of a writer's two rows for a partition."""
    key: str = row["id"]
    return key.rpartition(":")[0]


def last_watermarks(rows: Iterable[Row]) -> dict[str, Watermark]:
    """Return the last watermark of each writer and partition, by `writer_of`."""
    last: dict[str, Watermark] = {}
    for row in rows:
        mark = Watermark(**row["body"])
        known = last.setdefault(writer_of(row), mark)
        if known.commits < mark.commits:
            last[writer_of(row)] = mark
    return last


def farthest(watermarks: Iterable[Watermark]) -> dict[int, Watermark]:
    """Return the merged watermark of each partition, independent of the order of the arguments."""
    chosen: dict[int, Watermark] = {}
    for mark in watermarks:
        known = chosen.get(mark.partition, replace(mark, commits=0))
        chosen[mark.partition] = Watermark(
            partition=mark.partition,
            occurred_at=max(known.occurred_at, mark.occurred_at),
            committed_at=max(known.committed_at, mark.committed_at),
            commits=known.commits + mark.commits,
        )
    return chosen
