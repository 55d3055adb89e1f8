"""What clamd answers, as tests want it, and the file that every scanner finds."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

# In two pieces, so that no scanner finds this file.
EICAR = (r"X5O!P%@AP[4\PZX54(P^)7CC)7}" + "$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*").encode()
NAME = "Eicar-Test-Signature"


class ScriptedClamd:
    """Answers INSTREAM as clamd does, or with a fixed reply."""

    def __init__(self, *, reply: bytes | None = None, most: int = 1 << 26) -> None:
        self.reply = reply
        self.most = most
        self.scanned: list[bytes] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readuntil(b"\0") == b"zINSTREAM\0"
        content = bytearray()
        while size := struct.unpack("!L", await reader.readexactly(4))[0]:
            content += await reader.readexactly(size)
            if len(content) > self.most:
                break
        self.scanned.append(bytes(content))
        writer.write(self._reply(bytes(content)))
        await writer.drain()
        writer.close()

    def _reply(self, content: bytes) -> bytes:
        if self.reply is not None:
            return self.reply
        if len(content) > self.most:
            return b"INSTREAM size limit exceeded. ERROR\0"
        return f"stream: {NAME} FOUND\0".encode() if EICAR in content else b"stream: OK\0"


@asynccontextmanager
async def serving(clamd: ScriptedClamd, socket: Path | None = None) -> AsyncIterator[str]:
    """Run a server for one test; yield its place. socket: a path; None: a port."""
    if socket is not None:
        server = await asyncio.start_unix_server(clamd.answer, socket)
        place = str(socket)
    else:
        server = await asyncio.start_server(clamd.answer, "127.0.0.1", 0)
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield place
