"""What dead and late processes left behind."""

import tracemalloc
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, cast

from freki.schemas import RootId, Timestamp
from freki.schemas.index import Root, RowHead, RowId
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.reclaim import ABANDONED_MS, reclaim
from tests.unit.revisions import Crash, Crashing, World, revision


def committer(world: World) -> Committer:
    return Committer(store=world.index, now=lambda: Timestamp(next(world.ticks)))


async def died(world: World, *batches: object, at: int) -> None:
    try:
        await world.feed(batches, Crashing(world.index, at, after=True))  # type: ignore[arg-type]
    except Crash:
        return
    raise AssertionError("the process was to die")


async def test_rows_of_an_older_attempt_go_and_those_of_a_revision_in_flight_stay() -> None:
    world = World()
    await died(world, *revision("a", 1, ["lost"]), at=1)
    await world.feed(revision("b", 1, ["live"]))
    first, last = revision("b", 2, ["live", "new", "newer"])
    await world.feed([first])

    removed = await reclaim(world.index, committer(world), now=lambda: Timestamp(2_000))
    await world.feed([last])

    assert removed == 0, "neither is known to be over"
    assert await world.texts("b") == ["live", "new", "newer"]


async def test_attempts_that_nobody_can_finish_any_more_are_removed_also_of_unknown_documents() -> None:
    world = World()
    await died(world, *revision("a", 1, ["lost"]), at=1)
    await world.feed(revision("b", 1, ["live"]))
    await died(world, *revision("b", 2, ["live", "new"]), at=2)

    removed = await reclaim(world.index, committer(world), now=lambda: Timestamp(ABANDONED_MS + 10_000))

    assert removed == 2
    assert await world.texts("b") == ["live"]
    assert await world.leftovers() == 0
    assert await reclaim(world.index, committer(world), now=lambda: Timestamp(ABANDONED_MS + 10_000)) == 0


async def test_documents_that_the_stream_does_not_have_are_deleted_unless_something_newer_came() -> None:
    world = World()
    for document in "ab":
        await world.feed(revision(document, 1, ["old"]))
    roots = [root async for root in world.index.all_roots()]
    await world.feed(revision("b", 2, ["new"]))

    await committer(world).delete(roots)

    assert await world.texts("a") is None
    assert await world.texts("b") == ["new"]
    assert await world.leftovers() == 0


DOCUMENTS = 40_000


class Large:
    """An index of many documents with a row each, and some rows of documents without a root."""

    async def all_roots(self) -> AsyncIterator[Root]:
        for number in range(DOCUMENTS):
            yield cast("Root", Named(RootId(f"{number:032x}")))

    async def all_rows(self) -> AsyncIterator[Sequence[tuple[RootId, RowHead]]]:
        head = RowHead(row_id=RowId("r"), version=1, edition=0)
        for begin in range(0, DOCUMENTS + 100, 1_000):
            yield [(RootId(f"{number:032x}"), head) for number in range(begin, min(begin + 1_000, DOCUMENTS + 100))]


class Named:
    def __init__(self, root_id: RootId) -> None:
        self.root_id = root_id


class Counting:
    def __init__(self) -> None:
        self.swept = 0

    async def sweep(self, keys: Collection[RootId], **_: Any) -> dict[RootId, Any]:
        self.swept += len(keys)
        return {}


async def test_each_document_is_swept_once_and_few_bytes_are_held_of_each() -> None:
    """A worker does this several times a day, whatever the size of the index."""
    counting = Counting()
    tracemalloc.start()
    try:
        await reclaim(cast("Any", Large()), cast("Committer", counting), now=lambda: Timestamp(0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert counting.swept == DOCUMENTS + 100
    assert peak < 50 * DOCUMENTS
