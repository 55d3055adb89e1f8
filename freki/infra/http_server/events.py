"""Server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse

MEDIA_TYPE: Final = "text/event-stream"
BEAT_S: Final = 15.0
"""After so long without an event a comment is sent, so that proxies do not take the connection for dead."""


def event(name: str, data: str) -> bytes:
    """Return one event; data: JSON on one line."""
    return f"event: {name}\ndata: {data}\n\n".encode()


def streamed(events: AsyncIterator[bytes], *, until: asyncio.Event | None = None) -> StreamingResponse:
    """Return the response that sends events as they come; no proxy may collect them.

    until: ends the response, for events that never end by themselves.
    """
    beating = _beating(events, until or asyncio.Event())
    return StreamingResponse(beating, media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})


async def _beating(events: AsyncIterator[bytes], until: asyncio.Event) -> AsyncIterator[bytes]:
    coming = asyncio.ensure_future(anext(events, None))
    ended = asyncio.ensure_future(until.wait())
    try:
        while not ended.done():
            done, _ = await asyncio.wait({coming, ended}, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if coming in done:
                if (found := coming.result()) is None:
                    return
                yield found
                coming = asyncio.ensure_future(anext(events, None))
            elif not done:
                yield b": still here\n\n"
    finally:
        ended.cancel()
        coming.cancel()
        # Its error was raised above, or belongs to nobody.
        await asyncio.wait({coming})
        if isinstance(events, AsyncGenerator):
            await events.aclose()
