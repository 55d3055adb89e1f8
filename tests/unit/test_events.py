"""Server-sent events: they end with the connection."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from freki.infra.http_server.events import streamed


async def test_what_makes_events_ends_with_the_connection_also_while_one_is_sent() -> None:
    # Those of other tests may still end.
    before = asyncio.all_tasks()
    sending, ended = asyncio.Event(), asyncio.Event()

    async def events() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            yield b"second"
        finally:
            ended.set()

    async def receive() -> dict[str, Any]:
        await sending.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sending.set()
            # Whoever called reads nothing.
            await asyncio.Event().wait()

    response = streamed(events())
    await response({"type": "http"}, receive, send)

    assert ended.is_set()
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize("turns", range(4))
async def test_what_makes_events_ends_with_the_connection_also_while_one_comes(turns: int) -> None:
    began, gone, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    coming: asyncio.Queue[bytes] = asyncio.Queue()

    async def events() -> AsyncIterator[bytes]:
        try:
            while True:
                yield await coming.get()
        finally:
            # As whoever disconnects from a broker, which takes a while.
            await asyncio.sleep(0)
            ended.set()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        began.set()

    made = events()
    response = asyncio.create_task(streamed(made)({"type": "http"}, receive, send))
    await began.wait()
    await asyncio.sleep(0)
    gone.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    coming.put_nowait(b"late")

    await response
    async with asyncio.timeout(60):
        await ended.wait()
