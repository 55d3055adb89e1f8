"""Revisions of one document in several lanes and batches, written at once, in any order and with crashes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.infra.models.fake import FakeEmbedder
from freki.operators.identify import root_id
from freki.schemas import ContextualChunkBatch, DocumentId, IndexOutcome, OutcomeStatus, RevisionOperation, Timestamp
from freki.schemas.embeddings import Embeddings
from freki.streams.deliver.lanes import Lane
from freki.streams.ingest.index import Indexer, ReceivedPart
from freki.streams.ingest.index.reclaim import ABANDONED_MS, reclaim
from tests.unit.revisions import TENANT, WRITES, Crash, World, revision, rows_of, situated_by
from tests.unit.test_reclaim import committer as committer_of


class Event(NamedTuple):
    """A change as its producer makes it."""

    document: str
    texts: list[str] | None
    """None: gone."""
    lane: Lane
    reader: str
    bare: bool
    """A deletion without version."""
    key: str = ""
    """What made the contexts."""


@dataclass
class Watched:
    """A store in which calls of several lanes mix, readers look after each write, and whose process may die."""

    world: World
    allowed: dict[str, list[list[str] | None]]
    pauses: list[int]
    dies_at: int
    writes: int = 0
    calls: int = 0
    versions: dict[str, int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        call: Callable[..., Awaitable[Any]] = getattr(self.world.index, name)

        async def mixed(*args: Any) -> Any:
            self.calls += 1
            for _ in range(self.pauses[self.calls % len(self.pauses)]):
                await asyncio.sleep(0)
            if self.writes >= self.dies_at:
                raise Crash
            result = await call(*args)
            if name in WRITES:
                self.writes += 1
                await self.look()
            return result

        return mixed

    async def look(self) -> None:
        for document, revisions in self.allowed.items():
            assert await self.world.texts(document) in revisions
            key = root_id(TENANT, DocumentId(document))
            root = (await self.world.index.roots([key])).get(key)
            before = self.versions.get(document, 0)
            self.versions[document] = 0 if root is None else root.version
            assert self.versions[document] >= before


def parts_of(version: int, event: Event) -> list[ContextualChunkBatch]:
    if event.texts is None and event.bare:
        return revision(event.document, 0, None, operation=RevisionOperation.TOMBSTONE, recorded_at=Timestamp(version))
    parts = revision(event.document, version, event.texts, principals=(event.reader,))
    return situated_by(parts, event.key, *(event.texts or ())) if event.key else parts


def begins_in(event: Event) -> Lane:
    """Deletions are urgent, and only what has several parts is bulk."""
    if event.texts is None:
        return Lane.EXPRESS
    return Lane.REGULAR if event.lane is Lane.BULK and len(event.texts) <= 2 else event.lane


async def _lane(
    indexer: Indexer, lane: Lane, queue: list[ContextualChunkBatch], most: int, *, overlapping: int
) -> None:
    """Take batch after batch, some at a time; what is done leaves the queue."""
    room = asyncio.Semaphore(overlapping)

    async def take(batch: list[ContextualChunkBatch]) -> None:
        async with room, aclosing(indexer.index([ReceivedPart(part, 0) for part in batch], lane=lane)) as indexed:
            async for _ in indexed:
                await asyncio.sleep(0)
        for part in batch:
            queue.remove(part)

    batches = [queue[at : at + most] for at in range(0, len(queue), most)]
    for ending in await asyncio.gather(*map(take, batches), return_exceptions=True):
        if ending is not None:
            raise ending


events = st.builds(
    Event,
    document=st.sampled_from("ab"),
    texts=st.one_of(st.none(), st.lists(st.sampled_from("uvwxyz"), max_size=6, unique=True)),
    lane=st.sampled_from(Lane),
    reader=st.sampled_from(["board", "staff"]),
    bare=st.booleans(),
    key=st.sampled_from(["", "k1"]),
)


@settings(max_examples=300, deadline=None)
@given(
    history=st.lists(events, min_size=1, max_size=7),
    crashes=st.lists(st.integers(0, 12), max_size=3),
    pauses=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    batches=st.fixed_dictionaries({lane: st.integers(1, 4) for lane in Lane}),
    overlapping=st.integers(1, 4),
)
async def test_in_whatever_order_lanes_work_a_document_ends_as_its_last_change_left_it(
    history: list[Event], crashes: list[int], pauses: list[int], batches: dict[Lane, int], overlapping: int
) -> None:
    world = World()
    allowed: dict[str, list[list[str] | None]] = {"a": [None], "b": [None]}
    queues: dict[Lane, list[ContextualChunkBatch]] = {lane: [] for lane in Lane}
    last: dict[str, Event] = {}
    for version, event in enumerate(history, start=1):
        allowed[event.document].append(event.texts)
        queues[begins_in(event)] += parts_of(version, event)
        last[event.document] = event

    for dies_at in [*crashes, 10**9]:
        indexer = world.indexer(Watched(world, allowed, pauses, dies_at))
        works = [_lane(indexer, lane, queue, batches[lane], overlapping=overlapping) for lane, queue in queues.items()]
        # All of the process dies at once, and what was not done comes again to another.
        for ending in await asyncio.gather(*works, return_exceptions=True):
            if ending is not None and not isinstance(ending, Crash):
                raise ending

    if any(event.texts is None and event.bare for event in history):
        # Parts that a tombstone without a version overtook rank above the root that it left: time alone says that they
        # are over.
        await reclaim(world.index, committer_of(world), now=lambda: Timestamp(ABANDONED_MS + 10_000))
    for document, event in last.items():
        assert await world.texts(document) == event.texts
        key = root_id(TENANT, DocumentId(document))
        rows = await rows_of(world.index, key)
        assert {(row.principals, row.context_key) for row, _ in rows.values()} <= {((event.reader,), event.key)}
    assert await world.leftovers() == 0


async def test_parts_that_a_bare_tombstone_overtook_are_gone_after_the_time_of_an_attempt() -> None:
    world = World()
    first, last = revision("a", 5, ["u", "v", "w"])
    await _feed(world, [first], Lane.REGULAR)
    bare = Event("a", None, Lane.EXPRESS, reader="", bare=True)
    await _feed(world, parts_of(2_000, bare), Lane.EXPRESS)
    (overtaken,) = await _feed(world, [last], Lane.REGULAR)

    assert (overtaken.status, await world.texts("a")) == (OutcomeStatus.STALE, None)
    assert await world.leftovers() > 0
    await reclaim(world.index, committer_of(world), now=lambda: Timestamp(ABANDONED_MS + 10_000))
    assert await world.leftovers() == 0


async def _feed(world: World, batches: list[ContextualChunkBatch], lane: Lane) -> list[IndexOutcome]:
    return [
        outcome
        async for outcomes in world.indexer().index([ReceivedPart(batch, 0) for batch in batches], lane=lane)
        for outcome in outcomes
    ]


async def test_a_revision_that_is_overtaken_between_its_parts_is_stale_and_leaves_nothing() -> None:
    world = World()
    first, second, last = revision("a", 1, ["u", "v", "w", "x", "y"])
    await _feed(world, [first], Lane.BULK)

    await _feed(world, revision("a", 2, ["v", "new"]), Lane.EXPRESS)
    (overtaken,) = await _feed(world, [second, last], Lane.BULK)

    assert overtaken.status is OutcomeStatus.STALE
    assert await world.texts("a") == ["v", "new"]
    assert await world.leftovers() == 0


async def test_a_late_deletion_leaves_what_a_newer_revision_has_already_claimed() -> None:
    world = World()
    await _feed(world, revision("a", 1, ["u", "v", "w"]), Lane.REGULAR)
    first, last = revision("a", 3, ["u", "v", "x"])
    await _feed(world, [first], Lane.BULK)

    (deleted,) = await _feed(world, revision("a", 2, None), Lane.EXPRESS)
    gone = await world.texts("a")
    await _feed(world, [last], Lane.BULK)

    assert (deleted.status, gone) == (OutcomeStatus.DELETED, None)
    assert await world.texts("a") == ["u", "v", "x"]
    assert await world.leftovers() == 0


async def test_a_late_revision_does_not_give_a_newer_one_back_its_old_readers() -> None:
    world = World()
    await _feed(world, revision("a", 1, ["u", "v", "w"], principals=("staff",)), Lane.REGULAR)
    first, last = revision("a", 3, ["u", "v", "x"], principals=("board",))
    await _feed(world, [first], Lane.BULK)

    await _feed(world, revision("a", 2, ["u", "w"], principals=("staff",)), Lane.EXPRESS)
    await _feed(world, [last], Lane.BULK)

    key = root_id(TENANT, DocumentId("a"))
    rows = await rows_of(world.index, key)
    assert {row.principals for row, _ in rows.values()} == {("board",)}


@pytest.mark.parametrize("bare", [True, False])
async def test_a_deletion_that_overtakes_its_document_keeps_it_out(*, bare: bool) -> None:
    world = World()
    upsert = parts_of(1, Event("a", ["secret"], Lane.REGULAR, "staff", bare=False))
    deletion = parts_of(2, Event("a", None, Lane.EXPRESS, "staff", bare=bare))

    await _feed(world, deletion, Lane.EXPRESS)
    (late,) = await _feed(world, upsert, Lane.REGULAR)

    assert late.status is OutcomeStatus.STALE
    assert await world.texts("a") is None
    assert await world.leftovers() == 0


LARGE = [f"held {number}" for number in range(8)]
"""A document that the model holds."""


class HeldEmbedder(FakeEmbedder):
    """A model that is at work on some texts until it is let go."""

    def __init__(self) -> None:
        super().__init__(dim=16)
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:
        if any("held" in text for text in texts):
            self.begun.set()
            await self.go.wait()
        return await super().embed_passages(texts, headings)


class Holding:
    """An indexer whose model holds a large document of the regular lane."""

    def __init__(self) -> None:
        self.model = HeldEmbedder()
        self.world = World(embedder=self.model)
        self.indexer = self.world.indexer(slice_tokens=80)
        self.done: list[tuple[str, int, OutcomeStatus]] = []
        self.some_done = asyncio.Event()
        self._held: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._held = asyncio.create_task(self.work(revision("large", 1, LARGE)))
        await self.model.begun.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.model.go.set()
        assert self._held is not None
        await self._held

    async def work(self, parts: list[ContextualChunkBatch], lane: Lane = Lane.REGULAR) -> None:
        """Index parts, and take down what is done."""
        async with asyncio.timeout(60):
            async for outcomes in self.indexer.index([ReceivedPart(part, 0) for part in parts], lane=lane):
                self.done += [(outcome.document_id, outcome.version, outcome.status) for outcome in outcomes]
                self.some_done.set()


async def test_a_deletion_waits_for_no_model() -> None:
    holding = Holding()
    await holding.work(revision("a", 1, ["secret"]))
    async with holding:
        await holding.work(revision("a", 2, None), Lane.EXPRESS)

        assert holding.done[1:] == [("a", 2, OutcomeStatus.DELETED)]
        assert await holding.world.texts("a") is None


async def test_a_deletion_waits_for_no_write_of_its_own_document() -> None:
    async with Holding() as holding:
        await holding.work(revision("large", 2, None), Lane.EXPRESS)

        assert holding.done == [("large", 2, OutcomeStatus.DELETED)]
    assert holding.done[1:] == [("large", 1, OutcomeStatus.STALE)]
    assert await holding.world.texts("large") is None
    assert await rows_of(holding.world.index, root_id(TENANT, DocumentId("large"))) == {}


async def test_a_small_change_waits_for_no_large_one_of_its_lane() -> None:
    async with Holding() as holding:
        await holding.work(revision("b", 1, ["small"]))

        assert holding.done == [("b", 1, OutcomeStatus.INDEXED)]
    assert holding.done[1:] == [("large", 1, OutcomeStatus.INDEXED)]


async def test_what_comes_together_is_done_in_the_order_of_what_is_to_embed() -> None:
    holding = Holding()
    mixed = [*revision("large", 1, LARGE), *revision("b", 1, ["small"])]
    work = asyncio.create_task(holding.work(mixed))
    await holding.model.begun.wait()
    await holding.some_done.wait()
    holding.model.go.set()
    await work

    assert [document for document, _, _ in holding.done] == ["b", "large"]


async def test_versions_of_a_document_in_overlapping_batches_are_written_in_order() -> None:
    async with Holding() as holding:
        later = asyncio.create_task(holding.work([*revision("large", 2, ["new"]), *revision("b", 1, ["small"])]))
        await holding.some_done.wait()

        assert holding.done == [("b", 1, OutcomeStatus.INDEXED)]
    await later
    assert holding.done[1:] == [("large", 1, OutcomeStatus.INDEXED), ("large", 2, OutcomeStatus.INDEXED)]


async def test_a_batch_that_fails_or_is_given_up_holds_no_document_back() -> None:
    async with Holding() as holding:
        given_up = asyncio.create_task(holding.work(revision("large", 2, ["new"])))
        await asyncio.sleep(0)
        given_up.cancel()
        later = asyncio.create_task(holding.work(revision("large", 3, ["newer"])))
    await later

    assert given_up.cancelled()
    assert await holding.world.texts("large") == ["newer"]


async def test_urgent_work_is_done_between_the_slices_of_a_large_document() -> None:
    world = World()
    indexer = world.indexer()
    large = [ReceivedPart(part, 0) for part in revision("a", 1, [f"chunk {number}" for number in range(40)])]
    order: list[str] = []
    begun = asyncio.Event()
    embed = world.embedder.embed_passages

    async def embed_passages(texts: Any, headings: Any = ()) -> Any:
        begun.set()
        await asyncio.sleep(0)
        return await embed(texts, headings)

    world.embedder.embed_passages = embed_passages  # type: ignore[method-assign]

    async def work(parts: list[ReceivedPart], lane: Lane) -> None:
        async for outcomes in indexer.index(parts, lane=lane):
            order.extend(outcome.document_id for outcome in outcomes)

    bulk = asyncio.create_task(work(large, Lane.BULK))
    await begun.wait()
    await work([ReceivedPart(part, 0) for part in revision("b", 1, ["urgent"])], Lane.EXPRESS)
    await bulk

    assert order == ["b", "a"]
