"""Server-sent events: they end with the connection."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from freki.infra.http_server.events import streamed


async def test_what_makes_events_ends_with_the_connection_also_while_one_is_sent() -> None:
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
    assert len(asyncio.all_tasks()) == 1
