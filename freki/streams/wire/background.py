"""Tasks of a worker beside its stages."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Literal

import structlog

from freki.infra.kafka import Reader
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import KafkaSettings
from freki.schemas import Timestamp
from freki.schemas.errors import InfraError, Unavailable
from freki.streams.deliver.retry import Backoff
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.reclaim import reclaim
from freki.streams.retrieve.steps.judged import Judgements
from freki.streams.topics import DAY_MS, TOMBSTONE_MS
from freki.streams.wire.from_settings import wall_clock

FORGET_EVERY_S = 3600.0
RECLAIM_EVERY_S = 6 * 3600.0
EMBED_AGAIN_S = 1.0
WELL_S = 60.0
"""A topic that was read for so long works again: the next failure is the first one of another outage, in seconds."""

_log = structlog.get_logger(__name__)


class Background:
    """Tasks that run until the worker ends; none of them ends by itself but by failing."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """All tasks that were spawned."""
        return self._tasks

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run something beside the stages."""
        self._tasks.append(asyncio.create_task(work))

    async def aclose(self) -> None:
        """Cancel all tasks, the last one first."""
        while self._tasks:
            task = self._tasks.pop()
            task.cancel()
            await asyncio.wait({task})


async def follow(
    kafka: KafkaSettings,
    topic: str,
    start: Literal["earliest", "latest"],
    take: Callable[[Reader], Awaitable[None]],
) -> None:
    """Read a topic, again after an outage. Raises Unavailable where an outage lasts longer than a stage waits."""
    backoff, attempt = Backoff(), 0
    while True:
        opened_s = math.inf
        try:
            async with Reader(kafka, topic, start=start) as reader:
                opened_s = time.monotonic()
                await take(reader)
        except Unavailable as error:
            attempt = 1 if time.monotonic() - opened_s > WELL_S else attempt + 1
            if attempt >= backoff.attempts:
                raise
            _log.warning("a topic is not read for now", topic=topic, error=str(error))
        await asyncio.sleep(backoff.wait_s(max(attempt, 1), random.random()))  # noqa: S311 - spreads load


async def embed_judgements(judgements: Judgements) -> None:
    """Embed the queries of new judgements, a few at a time."""
    while True:
        with suppress(InfraError):  # the next round is soon enough
            while await judgements.embed_some():
                pass
        await asyncio.sleep(EMBED_AGAIN_S)


async def purge_deletions(index: MilvusIndex, retention_days: float, erase: Callable[[], Awaitable[None]]) -> None:
    """Purge deletions that are older than any late event can be; call `erase` first, as long as they are known."""
    while True:
        with suppress(Unavailable):  # the next round is soon enough
            await erase()
            await index.purge_deleted(Timestamp(wall_clock() - int(retention_days * DAY_MS)))
        await asyncio.sleep(FORGET_EVERY_S)


async def reclaim_rows(index: MilvusIndex, committer: Committer) -> None:
    """Delete rows that dead processes left behind; each worker at a time of its own, for one of them is enough."""
    while True:
        await asyncio.sleep(RECLAIM_EVERY_S * random.uniform(0.5, 1.5))  # noqa: S311 - spreads load
        with suppress(Unavailable):  # the next round is soon enough
            if removed := await reclaim(index, committer, now=wall_clock):
                _log.info("rows left behind were removed", rows=removed)


async def warn_of_missed_deletions(index: MilvusIndex) -> None:
    """Log a warning if deletions may have left the topic since the last commit."""
    last = max((mark.committed_at for mark in await index.watermarks()), default=None)
    if last is not None and wall_clock() - last > TOMBSTONE_MS:
        _log.warning(
            "nothing was committed for longer than the topic keeps deletions: if no worker ran in that time,"
            " run `freki verify --repair`",
            days=(wall_clock() - last) // DAY_MS,
        )
