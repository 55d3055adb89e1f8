"""Stands between the workers that write and the store, and takes its time, as a network does.

The local store answers within milliseconds, so that a fault would hardly ever meet a worker between two of its calls.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

DELAY_S = 0.01
"""Added to each way of each call."""
READ_BYTES = 1 << 16


@asynccontextmanager
async def delayed(host: str, port: int) -> AsyncIterator[str]:
    """Give the URI of a port on the loopback interface that leads to another, slowly."""
    tasks: set[asyncio.Task[None]] = set()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(host, port)
        for source, sink in ((reader, onward), (there, writer)):
            task = asyncio.create_task(_carry(source, sink))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass on what is read, in order, each piece after the delay."""
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def pass_on() -> None:
        while True:
            at, data = await due.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                return
            sink.write(data)
            await sink.drain()

    passing = asyncio.create_task(pass_on())
    try:
        # A peer that was killed ends its connection in any way.
        with suppress(OSError):
            while data := await source.read(READ_BYTES):
                due.put_nowait((loop.time() + DELAY_S, data))
            due.put_nowait((loop.time() + DELAY_S, b""))
            await passing
    finally:
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)
        sink.close()
