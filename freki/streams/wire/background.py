"""Background tasks of a worker."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import structlog

from freki.infra.claims import ClaimStore
from freki.infra.kafka import Reader
from freki.infra.registry import RegistryClient
from freki.infra.settings import KafkaSettings
from freki.schemas import Timestamp
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.schemas.index import Root
from freki.streams.deliver.retry import Backoff
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.reclaim import reclaim
from freki.streams.messages import Stored
from freki.streams.observe.outage import OutageLog
from freki.streams.retrieve.steps.judged import Judgements
from freki.streams.topics import DAY_MS, TOMBSTONE_MS
from freki.streams.wire.from_settings import wall_clock

if TYPE_CHECKING:
    from freki.infra.milvus.index import MilvusIndex
    from freki.streams.wire.parts import Parts

PURGE_INTERVAL_S = 3600.0
"""Interval of purges of old deletions, in seconds."""
RECLAIM_INTERVAL_S = 6 * 3600.0
"""Mean interval of the deletion of orphaned rows, in seconds."""
EMBED_INTERVAL_S = 1.0
"""Interval of embedding new judgements, in seconds."""
RECOVERED_S = 60.0
"""Time of undisturbed reading after which a failure counts as the first of another outage, in seconds."""

_log = structlog.get_logger(__name__)


class Background:
    """Tasks that run until the worker ends, or until they fail."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """All spawned tasks."""
        return self._tasks

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Start a task."""
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
    start: Literal["earliest", "latest"] | int,
    take: Callable[[Reader], Awaitable[None]],
    *,
    registry: RegistryClient | None = None,
) -> None:
    """Read a topic, with retries during an outage; start, registry: as for `Reader`.

    Raises Unavailable after as many attempts as stages make.
    """
    backoff, attempt = Backoff(), 0
    while True:
        opened_s = math.inf
        try:
            async with Reader(kafka, topic, start=start, registry=registry) as reader:
                opened_s = time.monotonic()
                await take(reader)
        except Unavailable as error:
            attempt = 1 if time.monotonic() - opened_s > RECOVERED_S else attempt + 1
            if attempt >= backoff.attempts:
                raise
            _log.warning("reading a topic failed; retrying", topic=topic, error=str(error))
        await asyncio.sleep(backoff.wait_s(max(attempt, 1), random.random()))  # noqa: S311 - spreads load


async def read_and_follow(
    parts: "Parts", topic: str, *, opened: Callable[[Mapping[int, int]], None], take: Callable[[Stored], None]
) -> None:
    """Take all records of a topic, so that the first query knows them; then follow it from its beginning again.

    opened: called with the end offset of each partition before it is followed, and after each outage.
    """
    async with Reader(parts.settings.kafka, topic, start="earliest", registry=parts.registry) as reader:
        async for stored in reader.until_end():
            take(stored)

    async def take_all(reader: Reader) -> None:
        opened(reader.ends)
        async for stored in reader:
            take(stored)

    parts.background.spawn(follow(parts.settings.kafka, topic, "earliest", take_all, registry=parts.registry))


async def embed_judgements(judgements: Judgements) -> None:
    """Embed the queries of new judgements, in small batches; an outage is told once."""
    outages = OutageLog("new judgements count later, once their queries can be embedded")
    while True:
        try:
            while await judgements.embed_some():
                pass
        except InfraError as error:
            outages.failed(error)
        else:
            outages.succeeded()
        await asyncio.sleep(EMBED_INTERVAL_S)


class ClaimRemoval:
    """Removes the claims of deleted documents, in one pass over them."""

    def __init__(self, claims: ClaimStore, are_named: Callable[[], Awaitable[bool]]) -> None:
        """Create one; are_named: returns whether any change names a claim in the directory of claims."""
        self._claims = claims
        self._are_named = are_named
        self._checked = False
        self.refused: list[Rejected] = []
        """Why claims may not be removed."""

    async def remove(self, root: Root) -> bool:
        """Return whether no claim of a deleted document is left. Raises Unavailable where claims are out of reach."""
        try:
            removed = await self._claims.remove_versions(root.root_id, until=root.version)
        except Rejected as error:
            self.refused.append(error)
            return False
        if not (removed or self._checked):
            # Whoever keeps no content there has no such directory.
            if not await self._claims.is_there() and await self._are_named():
                await self._claims.check()
            self._checked = True
        return True


async def purge_deletions(
    index: "MilvusIndex",
    claims: ClaimStore,
    retention_days: float,
    erase: Callable[[], Awaitable[None]],
    are_named: Callable[[], Awaitable[bool]],
) -> None:
    """Purge deletions older than the retention for late events, with the claims of their documents.

    erase: is called before, while the deletions are still known; are_named: as of `ClaimRemoval`.
    """
    while True:
        removal = ClaimRemoval(claims, are_named)
        try:
            await erase()
            before = Timestamp(wall_clock() - int(retention_days * DAY_MS))
            await index.purge_deleted(before, first=removal.remove)
        except InfraError as error:
            _log.warning("old deletions are purged later", error=str(error))
        if removal.refused:
            _log.warning(
                "old deletions stay, because this worker may not remove their claims",
                deletions=len(removal.refused),
                error=str(removal.refused[0]),
            )
        await asyncio.sleep(PURGE_INTERVAL_S)


async def take_over_watermarks(index: "MilvusIndex") -> None:
    """Take over the watermarks of ended processes, which every answer reads; at random intervals, one worker at a time.

    Workers that start together would otherwise take over the same ones together.
    """
    while True:
        await asyncio.sleep(PURGE_INTERVAL_S * random.uniform(0, 1))  # noqa: S311 - spreads load
        try:
            await index.take_over_watermarks(wall_clock())
        except InfraError as error:
            _log.warning("watermarks of ended processes are taken over later", error=str(error))


async def reclaim_rows(index: "MilvusIndex", committer: Committer) -> None:
    """Delete orphaned rows of dead processes; at random intervals, because one worker at a time suffices."""
    while True:
        await asyncio.sleep(RECLAIM_INTERVAL_S * random.uniform(0.5, 1.5))  # noqa: S311 - spreads load
        try:
            if removed := await reclaim(index, committer, now=wall_clock):
                _log.info("orphaned rows were deleted", rows=removed)
        except Misconfigured:
            raise
        except InfraError as error:
            _log.warning("orphaned rows are deleted later", error=str(error))


async def warn_of_missed_deletions(index: "MilvusIndex") -> None:
    """Log a warning if the topic may have dropped deletions since the last commit."""
    last = max((mark.committed_at for mark in await index.watermarks()), default=None)
    if last is not None and wall_clock() - last > TOMBSTONE_MS:
        _log.warning(
            "the last commit is older than the topic's retention of deletions: if no worker ran since then,"
            " run `freki verify --repair`",
            days=(wall_clock() - last) // DAY_MS,
        )
