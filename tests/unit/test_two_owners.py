"""Two workers write the same documents: one lost its partition and goes on, whatever it has in hand."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.identify import root_id
from freki.schemas import (
    ContextualChunkBatch,
    DocumentId,
    IndexOutcome,
    OutcomeStatus,
    RevisionOperation,
    Timestamp,
)
from freki.streams.deliver.lanes import Lane
from freki.streams.ingest.index import Indexer, ReceivedPart
from freki.streams.ingest.index.pieces import MissingPartsError
from tests.unit.revisions import TENANT, World, revision


class Held:
    """A store or embedder of one worker, one of whose methods waits, before its effect, until it is let go."""

    def __init__(self, inner: Any, method: str) -> None:
        self._inner = inner
        self._method = method
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name != self._method:
            return call

        async def held(*args: Any, **options: Any) -> Any:
            self.reached.set()
            await self.let_go.wait()
            return await call(*args, **options)

        return held

    def of(self, _kind: object) -> "Held":
        return self


async def feed(indexer: Indexer, batches: Iterable[ContextualChunkBatch], lane: Lane = Lane.REGULAR) -> list[Any]:
    outcomes: list[IndexOutcome] = []
    async for some in indexer.index([ReceivedPart(batch, 0) for batch in batches], lane=lane):
        outcomes += some
    return [(outcome.version, outcome.status) for outcome in outcomes]


def slow_embedder(world: World) -> tuple[Indexer, Held]:
    """A worker whose model takes as long as the test wants."""
    quick, held = world.embedder, Held(world.embedder, "embed_passages")
    world.embedder = held  # type: ignore[assignment]
    indexer = world.indexer()
    world.embedder = quick
    return indexer, held


def slow_store(world: World, method: str) -> tuple[Indexer, Held]:
    held = Held(world.index, method)
    return world.indexer(held), held


async def test_a_worker_that_lost_its_partition_does_not_undo_a_deletion() -> None:
    world = World()
    await world.feed(revision("a", 1, ["old"]))
    zombie, held = slow_embedder(world)
    in_flight = asyncio.create_task(feed(zombie, revision("a", 2, ["old", "secret"])))
    await held.reached.wait()

    successor = await feed(world.indexer(), revision("a", 3, None), Lane.EXPRESS)
    again = await feed(world.indexer(), revision("a", 2, ["old", "secret"]))
    held.let_go.set()
    late = await in_flight

    assert successor == [(3, OutcomeStatus.DELETED)]
    assert again == late == [(2, OutcomeStatus.STALE)]
    assert await world.texts("a") is None
    assert await world.leftovers() == 0


async def test_a_worker_that_lost_its_partition_does_not_roll_a_newer_revision_back() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u"]))
    zombie, held = slow_embedder(world)
    in_flight = asyncio.create_task(feed(zombie, revision("a", 2, ["u", "v"])))
    await held.reached.wait()

    await feed(world.indexer(), [*revision("a", 2, ["u", "v"]), *revision("a", 3, ["w"])])
    held.let_go.set()

    assert await in_flight == [(2, OutcomeStatus.STALE)]
    assert await world.texts("a") == ["w"]
    assert await world.leftovers() == 0


@pytest.mark.parametrize("method", ["delete", "discard", "page_heads", "rows_of", "commits"])
async def test_a_late_sweep_does_not_take_what_an_undone_edit_has_again(method: str) -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "c"]))
    zombie, held = slow_store(world, method)
    in_flight = asyncio.create_task(feed(zombie, revision("a", 2, ["u"])))
    await held.reached.wait()

    await feed(world.indexer(), [*revision("a", 2, ["u"]), *revision("a", 3, ["u", "c"])])
    held.let_go.set()
    await in_flight

    assert await world.texts("a") == ["u", "c"]
    assert await world.leftovers() == 0


async def test_a_skipped_version_leaves_no_hole_where_its_owner_sweeps_late() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "c"]))
    zombie, held = slow_store(world, "commit")
    in_flight = asyncio.create_task(feed(zombie, revision("a", 2, ["u"])))
    await held.reached.wait()

    # The successor never writes version 2: it was coalesced with version 3, which has the chunk again.
    await feed(world.indexer(), revision("a", 3, ["u", "c"]))
    held.let_go.set()
    late = await in_flight

    assert late == [(2, OutcomeStatus.STALE)]
    assert await world.texts("a") == ["u", "c"]


@pytest.mark.parametrize(
    "method", ["roots", "stored", "naming", "insert", "write_pages", "commit", "commits", "rows_of", "delete"]
)
@pytest.mark.parametrize(
    "after",
    [
        lambda: revision("a", 3, None),
        lambda: revision("a", 3, ["u", "c"]),
        lambda: revision("a", 2, ["u", "x"]),
        lambda: [*revision("a", 2, ["u", "x"]), *revision("a", 3, ["c", "x"]), *revision("a", 4, ["c", "u"])],
    ],
    ids=["deleted", "undone", "the same version", "edited twice"],
)
async def test_a_call_that_takes_effect_late_changes_nothing(
    method: str, after: Callable[[], list[ContextualChunkBatch]]
) -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "c"]))
    zombie, held = slow_store(world, method)
    in_flight = asyncio.create_task(feed(zombie, revision("a", 2, ["u", "x"])))
    await held.reached.wait()
    await feed(world.indexer(), after())
    expected = await world.texts("a")

    held.let_go.set()
    await in_flight

    assert await world.texts("a") == expected
    (again,) = await feed(world.indexer(), after()[-1:] if after()[-1].parts == 1 else after()[-2:])
    assert again[1] in {OutcomeStatus.UNCHANGED, OutcomeStatus.DELETED}
    assert await world.texts("a") == expected


async def test_a_deletion_wins_over_its_own_version_in_either_order() -> None:
    for batches in (
        [*revision("a", 1, ["u"]), *revision("a", 1, None)],
        [*revision("a", 1, None), *revision("a", 1, ["u"])],
    ):
        world = World()
        await world.feed(batches)
        assert await world.texts("a") is None
        assert await world.leftovers() == 0


async def test_parts_of_two_cuts_are_never_committed_as_one() -> None:
    world = World()
    old = revision("a", 1, ["p1", "p2", "p3", "p4", "p5", "p6"], content_hash="same", chunker="old")
    new = revision("a", 1, ["p1 p2", "p3 p4", "p5 p6", "p7 p8", "p9"], content_hash="same", chunker="new")

    outcomes = [
        (outcome.status, outcome.chunks)
        for batch in (old[0], new[0], new[1], old[1], new[2], old[2])
        for outcome in await world.feed([batch])
    ]

    assert outcomes == [(OutcomeStatus.INDEXED, 5), (OutcomeStatus.UNCHANGED, 5)]
    assert await world.texts("a") == ["p1 p2", "p3 p4", "p5 p6", "p7 p8", "p9"]
    assert await world.leftovers() == 0


async def test_parts_that_another_worker_wrote_and_checked_are_not_written_again() -> None:
    world = World()
    first, *rest = revision("a", 1, ["u", "v", "w", "x", "y"])
    await world.feed([first])

    # Another process gets the rest: the first part was acknowledged.
    (outcome,) = await world.feed(rest)

    assert (outcome.status, outcome.chunks) == (OutcomeStatus.INDEXED, 5)
    assert await world.texts("a") == ["u", "v", "w", "x", "y"]


@given(kept=st.lists(st.booleans(), min_size=3, max_size=3))
async def test_what_a_broker_lost_of_a_large_revision_shows_none_of_it_and_is_told_with_its_last_part(
    kept: list[bool],
) -> None:
    """As after a restart of a broker in memory: the document is lost with its parts, and only its producer can help."""
    world = World()
    await world.feed(revision("a", 1, ["old"]))
    parts = revision("a", 2, ["p1", "p2", "p3", "p4", "p5"])
    came = [part for part, is_kept in zip(parts, kept, strict=True) if is_kept]

    if kept[-1] and not all(kept):
        with pytest.raises(MissingPartsError, match=r"'a' version 2: .* publish the document again"):
            await world.feed(came)
    else:
        await world.feed(came)

    assert await world.texts("a") == (["p1", "p2", "p3", "p4", "p5"] if all(kept) else ["old"])
    await world.feed(parts)
    assert await world.texts("a") == ["p1", "p2", "p3", "p4", "p5"]
    assert await world.leftovers() == 0


async def test_a_row_that_was_lost_is_written_again_when_its_version_comes_again() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v"]))
    await world.index.delete([row.row_id for row in await world.rows("a") if row.text == "u"])

    (outcome,) = await world.feed(revision("a", 1, ["u", "v"]))

    assert (outcome.status, outcome.embedded) == (OutcomeStatus.UNCHANGED, 1)
    assert await world.texts("a") == ["u", "v"]
    assert await world.leftovers() == 0


async def test_the_receipt_of_a_revision_that_was_overtaken_while_it_was_committed_says_so() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u"]))
    slow, held = slow_store(world, "commit")
    in_flight = asyncio.create_task(feed(slow, revision("a", 2, ["v"])))
    await held.reached.wait()
    await feed(world.indexer(), revision("a", 3, None), Lane.EXPRESS)

    held.let_go.set()

    assert await in_flight == [(2, OutcomeStatus.STALE)]
    assert await world.texts("a") is None
    assert await world.leftovers() == 0


@pytest.mark.parametrize("bare", [False, True])
async def test_the_receipt_of_a_deletion_that_was_overtaken_while_it_was_committed_says_so(*, bare: bool) -> None:
    world = World()
    await world.feed(revision("a", 1, ["u"]))
    slow, held = slow_store(world, "commit")
    batches = (
        revision("a", 0, None, operation=RevisionOperation.TOMBSTONE, recorded_at=Timestamp(2))
        if bare
        else revision("a", 2, None)
    )
    results = slow.index([ReceivedPart(batch, 0) for batch in batches], lane=Lane.EXPRESS)
    in_flight = asyncio.ensure_future(anext(results))
    await held.reached.wait()
    await feed(world.indexer(), revision("a", 3, ["v"]))

    held.let_go.set()

    [outcome] = await in_flight
    assert (outcome.status, outcome.searchable_at) == (OutcomeStatus.STALE, None)
    assert "version 3 was committed" in outcome.reason
    assert await world.texts("a") == ["v"]
    assert await world.leftovers() == 0


async def test_a_mark_that_comes_after_its_page_was_swept_goes_with_the_end_of_its_revision() -> None:
    world = World()
    first, *rest = revision("a", 1, ["u", "v", "w", "x"])
    slow, held = slow_store(world, "mark_checked")
    in_flight = asyncio.create_task(feed(slow, [first], Lane.BULK))
    await held.reached.wait()
    await feed(world.indexer(), revision("a", 2, None), Lane.EXPRESS)
    held.let_go.set()
    await in_flight
    key = root_id(TENANT, DocumentId("a"))
    [mark] = (await world.index.page_heads([key]))[key]
    assert (mark.checked, mark.row_ids) == (False, ())

    late = await feed(slow, rest, Lane.BULK)

    assert late == [(1, OutcomeStatus.STALE)]
    assert await world.index.page_heads([key]) == {key: []}
    assert await world.leftovers() == 0


async def test_a_deletion_below_another_one_has_deleted() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u"]))
    slow, held = slow_store(world, "commit")
    in_flight = asyncio.create_task(feed(slow, revision("a", 2, None), Lane.EXPRESS))
    await held.reached.wait()
    await feed(world.indexer(), revision("a", 3, None))

    held.let_go.set()

    assert await in_flight == [(2, OutcomeStatus.DELETED)]
    assert await world.texts("a") is None
