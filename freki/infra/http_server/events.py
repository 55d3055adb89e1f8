"""Server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

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
    return _Events(beating, media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})


class _Events(StreamingResponse):
    """Closes what makes the events when the connection ends, also while one is being sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if isinstance(self.body_iterator, AsyncGenerator):
                # In a task of its own: this one may be cancelled.
                await asyncio.shield(asyncio.ensure_future(self.body_iterator.aclose()))


async def _beating(events: AsyncIterator[bytes], until: asyncio.Event) -> AsyncGenerator[bytes, None]:
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
        # In a task of its own: the scope of a response that ends cancels each wait in it again, also one in `finally`.
        await asyncio.shield(asyncio.ensure_future(_close(events, coming)))


async def _close(events: AsyncIterator[bytes], coming: asyncio.Future[bytes | None]) -> None:
    """End the event that is awaited, then what makes the events."""
    coming.cancel()
    # Its error was raised before, or belongs to nobody.
    await asyncio.wait({coming})
    if isinstance(events, AsyncGenerator):
        await events.aclose()
