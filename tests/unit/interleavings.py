"""Runs the real indexers of several owners in the orders that their calls of the store can take effect in.

Coroutines cannot be copied, so each schedule is run from the start.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from freki.infra.models.fake import FakeEmbedder
from freki.infra.models.vectors import VectorCache
from freki.schemas import ContextualChunkBatch, RootId, TenantId, Timestamp
from freki.schemas.index import Rank, Root, standing
from freki.streams.ingest.index import Indexer, IndexRules, ReceivedPart
from tests.memory_index import MemoryIndex
from tests.unit.revisions import ANALYSER, World


class Requested(NamedTuple):
    """Parts with a request to reindex their version."""

    batches: Sequence[ContextualChunkBatch]
    edition: int


Batches = Sequence[Sequence[ContextualChunkBatch]]
Jobs = Sequence[Sequence[ContextualChunkBatch] | Requested] | Callable[["Owner"], Awaitable[None]]
"""What one owner is given, batch after batch; or what it does with the store, which it is itself."""


class Broken(AssertionError):
    """A reader sees something wrong, by the schedule in the message."""


@dataclass
class Owner:
    """An owner whose next call of the store waits for its turn."""

    index: MemoryIndex
    name: int
    jobs: Jobs
    clock: int
    attempts: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)
    """Calls in the order in which they were made; some are made together."""
    task: "asyncio.Task[None] | None" = None

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)
        call = getattr(self.index, method)

        async def in_turn(*args: Any, **options: Any) -> Any:
            await self._turn()
            return await call(*args, **options)

        return in_turn

    async def all_roots(
        self, after: RootId | None = None, *, tenant: TenantId | None = None, prefix: str = ""
    ) -> AsyncIterator[Root]:
        """Read them in one call."""
        await self._turn()
        async for root in self.index.all_roots(after, tenant=tenant, prefix=prefix):
            yield root

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn

    def start(self) -> None:
        def entropy() -> str:
            self.attempts += 1
            return f"{self.name:02d}{self.attempts:02d}"

        indexer = Indexer(
            IndexRules(
                generation="g1",
                analyse_text=lambda text, language: f"{language} {text}",
                analyser=ANALYSER,
                slice_tokens=1000,
            ),
            store=self,
            embedder=FakeEmbedder(dim=16),
            vectors=VectorCache("fake", 0),
            now=lambda: Timestamp(self.clock),
            entropy=entropy,
        )
        jobs = self.jobs
        self.task = asyncio.create_task(self._do(jobs) if callable(jobs) else self._work(indexer, jobs))

    async def _do(self, job: Callable[["Owner"], Awaitable[None]]) -> None:
        await job(self)

    async def _work(self, indexer: Indexer, jobs: Sequence[Sequence[ContextualChunkBatch] | Requested]) -> None:
        for job in jobs:
            batches, edition = job if isinstance(job, Requested) else (job, 0)
            async for _ in indexer.index([ReceivedPart(batch, 0, edition) for batch in batches]):
                pass

    @property
    def is_done(self) -> bool:
        return self.task is not None and self.task.done()


class Run:
    """One run from the start."""

    def __init__(self, before: World, jobs: Sequence[Jobs], clocks: Sequence[int]) -> None:
        self.world = World(index=before.index.copied(), ticks=count(next(before.ticks)))
        self.owners = [Owner(self.world.index, name, each, clocks[name]) for name, each in enumerate(jobs)]
        self.rank: Rank | None = None

    async def follow(self, schedule: Sequence[int]) -> None:
        for owner in self.owners:
            owner.start()
        await self._settle()
        await self.check(())
        for name in schedule:
            await self.step(name)
        await self.check(schedule)

    async def step(self, name: int) -> None:
        """Let the next call of an owner take effect, and let it go on to the call after that."""
        self.owners[name].waiting.pop(0).set_result(None)
        await self._settle()

    async def _settle(self) -> None:
        """Let every owner go on until it waits for the store, or is done."""
        for _ in range(3):
            await asyncio.sleep(0)
        while any(not owner.waiting and not owner.is_done for owner in self.owners):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0)
        for owner in self.owners:
            if owner.is_done and owner.task is not None:
                owner.task.result()

    async def check(self, schedule: Sequence[int]) -> None:
        """Fail where a reader would see a hole, or an older revision than before."""
        root = standing(root for roots in self.world.index._roots.values() for root in roots.values())
        try:
            await self.world.texts("a")
        except (KeyError, AssertionError) as hole:
            raise Broken(f"a hole in {root and root.rank} after {list(schedule)}: {hole!r}") from hole
        assert root is not None
        if self.rank is not None and root.rank < self.rank:
            raise Broken(f"{self.rank} went back to {root.rank} after {list(schedule)}")
        self.rank = root.rank

    @property
    def enabled(self) -> list[int]:
        return [owner.name for owner in self.owners if not owner.is_done]

    async def close(self) -> None:
        for owner in self.owners:
            if owner.task is not None and not owner.task.done():
                owner.task.cancel()
        tasks = [owner.task for owner in self.owners if owner.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


async def explore(
    before: Sequence[ContextualChunkBatch],
    jobs: Sequence[Jobs],
    clocks: Sequence[int],
    *,
    switches: int,
    ended: Callable[[World], Awaitable[None]],
) -> int:
    """Run every schedule in which owners are interrupted at most so often; return how many there are.

    Source: Musuvathi and Qadeer, Iterative Context Bounding, PLDI 2007, doi:10.1145/1250734.1250785.
    """
    # Fed once: what is there before the first call is the same in every schedule.
    world = World()
    await world.feed(before)
    runs = 0
    schedules: list[tuple[list[int], int]] = [([], switches)]
    while schedules:
        schedule, left = schedules.pop()
        run = Run(world, jobs, clocks)
        try:
            await run.follow(schedule)
            runs += 1
            schedule = list(schedule)
            while run.enabled:
                # Go on with the same owner; each place where another one could go on instead is a schedule of its own.
                current = schedule[-1] if schedule and schedule[-1] in run.enabled else run.enabled[0]
                is_forced = bool(schedule) and schedule[-1] not in run.enabled
                is_free = is_forced or not schedule
                schedules += [
                    ([*schedule, other], left if is_free else left - 1)
                    for other in run.enabled
                    if other != current and (left > 0 or is_free)
                ]
                schedule.append(current)
                await run.step(current)
                await run.check(schedule)
            await ended(run.world)
        finally:
            await run.close()
    return runs
