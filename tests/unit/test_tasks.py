"""Clean-up has its time, also in a task that is being cancelled."""

import asyncio

import pytest

from freki.client.tasks import cancel_and_wait, ends_within


async def never(ended: asyncio.Event) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


async def test_work_that_ends_in_time_is_told_from_work_that_is_ended() -> None:
    ended = asyncio.Event()

    assert await ends_within(60, asyncio.sleep(0))
    assert not await ends_within(0.01, never(ended))
    assert ended.is_set()


async def test_an_error_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await ends_within(60, fail())


async def test_clean_up_that_takes_too_long_in_a_cancelled_task_is_followed_by_the_next() -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append(await ends_within(0.01, never(ended)))
            cleaned.append(await ends_within(60, asyncio.sleep(0)))

    task = asyncio.create_task(work())
    await began.wait()
    await cancel_and_wait([task])

    assert (cleaned, ended.is_set(), task.cancelled()) == ([False, True], True, True)


async def test_work_is_ended_with_a_caller_that_is_cancelled() -> None:
    ended = asyncio.Event()
    task = asyncio.create_task(ends_within(60, never(ended)))
    await asyncio.sleep(0.01)

    await cancel_and_wait([task])

    assert (ended.is_set(), task.cancelled()) == (True, True)
