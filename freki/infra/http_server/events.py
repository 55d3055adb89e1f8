"""Server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from starlette.responses import StreamingResponse

BEAT_S: Final = 15.0
"""After so long without an event a comment is sent, so that proxies do not take the connection for dead."""


def event(name: str, data: str) -> bytes:
    """Return one event; data: JSON on one line."""
    return f"event: {name}\ndata: {data}\n\n".encode()


def streamed(events: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response that sends events as they come; no proxy may collect them."""
    return StreamingResponse(_beating(events), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _beating(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=BEAT_S)
            if not done:
                yield b": still here\n\n"
                continue
            found = coming.result()
            if found is None:
                return
            yield found
            coming = asyncio.ensure_future(anext(events, None))
    finally:
        coming.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await coming
        if hasattr(events, "aclose"):
            await events.aclose()
