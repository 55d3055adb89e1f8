import asyncio
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from freki.streams.deliver.lanes import Lane
from freki.streams.ingest.lane_scheduler import MAX_PASSED, LaneScheduler

SMALL, LARGE = 10, 11


async def work(turns: LaneScheduler, lane: Lane, slices: int, done: list[Lane]) -> None:
    """Do slices, turn after turn; the next one is there before a turn ends, as where it is embedded during a commit."""
    ahead: asyncio.Task[None] | None = None
    for _ in range(slices):
        before, ahead = ahead, asyncio.create_task(do(turns, lane, LARGE, done))
        if before is not None:
            await before
    if ahead is not None:
        await ahead


async def do(turns: LaneScheduler, lane: Lane, tokens: int, done: list[Lane]) -> None:
    async with turns.turn(lane, tokens):
        await asyncio.sleep(0)
        done.append(lane)


async def run(*lanes: tuple[Lane, int]) -> list[Lane]:
    turns, done = LaneScheduler(small=SMALL), list[Lane]()
    await asyncio.gather(*(work(turns, lane, slices, done) for lane, slices in lanes))
    return done


async def test_an_urgent_lane_goes_on_after_the_slice_at_hand() -> None:
    turns, done = LaneScheduler(small=SMALL), list[Lane]()
    bulk = asyncio.create_task(work(turns, Lane.BULK, 20, done))
    await asyncio.sleep(0)

    await work(turns, Lane.EXPRESS, 1, done)
    await bulk

    assert done.index(Lane.EXPRESS) <= 2


async def test_small_slices_of_any_lane_wait_for_no_turn() -> None:
    turns, done = LaneScheduler(small=SMALL), list[Lane]()
    async with turns.turn(Lane.EXPRESS, LARGE), asyncio.timeout(60):
        waiting = asyncio.create_task(do(turns, Lane.REGULAR, LARGE, done))
        await asyncio.gather(*(do(turns, Lane.BULK, SMALL, done) for _ in range(3)))
        assert done == [Lane.BULK] * 3
    await waiting


async def test_who_waits_gets_its_share_of_a_steady_stream_of_urgent_work() -> None:
    done = await run((Lane.EXPRESS, 100), (Lane.BULK, 10))

    last = max(place for place, lane in enumerate(done) if lane is Lane.BULK)
    assert last <= 10 * (MAX_PASSED + 1)


@given(slices=st.fixed_dictionaries({lane: st.integers(0, 30) for lane in Lane}))
async def test_all_work_is_done_and_nobody_is_passed_more_often_than_said(slices: dict[Lane, int]) -> None:
    done = await run(*slices.items())

    assert Counter(done) == Counter({lane: count for lane, count in slices.items() if count})
    for lane in Lane:
        own = [-1, *(place for place, other in enumerate(done) if other is lane)]
        # Both other lanes may have been passed over as often, and go first.
        assert all(after - before <= MAX_PASSED + len(Lane) for before, after in pairwise(own))


async def test_who_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    turns, done = LaneScheduler(small=SMALL), list[Lane]()
    async with turns.turn(Lane.REGULAR, LARGE):
        given_up = asyncio.create_task(do(turns, Lane.EXPRESS, LARGE, done))
        waiting = asyncio.create_task(do(turns, Lane.BULK, LARGE, done))
        await asyncio.sleep(0)
        given_up.cancel()
    await waiting

    assert done == [Lane.BULK]


async def test_a_turn_ends_with_what_fails_in_it() -> None:
    turns = LaneScheduler(small=SMALL)

    async def fail() -> None:
        async with turns.turn(Lane.EXPRESS, LARGE):
            raise ValueError

    await asyncio.gather(fail(), return_exceptions=True)
    async with asyncio.timeout(60), turns.turn(Lane.BULK, LARGE):
        pass
