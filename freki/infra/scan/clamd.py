"""Client of clamd, by its INSTREAM command.

Own code: the Python clients of clamd (clamd, pyclamd) have had no release for years, block, and do no more than this.
Source: clamd(8), section COMMANDS.
"""

import asyncio
import struct
from contextlib import suppress

from freki.schemas.errors import InfraError, Rejected, Unavailable

_BLOCK_BYTES = 1 << 16
_REPLY_BYTES = 4096
_FOUND, _CLEAN, _TOO_LARGE = " FOUND", "OK", "size limit exceeded"


class ClamdScanner:
    """A scanner with one connection for each content. Satisfies Scanner of `streams.ports`."""

    engine = "clamd"

    def __init__(self, place: str, *, timeout_s: float) -> None:
        """Create a scanner; place: host:port, or the absolute path of a Unix socket."""
        self._place = place
        self._timeout_s = timeout_s

    async def scan(self, content: bytes) -> str | None:
        """Return the name of what was found; None if the content is clean.

        Raises Unavailable without a verdict in time, and Rejected for content that is too large for clamd.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._asked(content)
        except TimeoutError as error:
            limit = f"FREKI_SCAN__TIMEOUT_S={self._timeout_s:g}"
            raise Unavailable(f"FREKI_SCAN__CLAMD={self._place} gave no verdict within {limit}") from error
        except OSError as error:
            said = error.strerror or type(error).__name__
            raise Unavailable(f"FREKI_SCAN__CLAMD={self._place} does not answer: {said}") from error
        verdict = reply.removeprefix("stream: ")
        if verdict == _CLEAN:
            return None
        if verdict.endswith(_FOUND):
            return verdict.removesuffix(_FOUND)
        raise self._failure(verdict, len(content))

    async def _asked(self, content: bytes) -> str:
        reader, writer = await (
            asyncio.open_unix_connection(self._place)
            if self._place.startswith("/")
            else asyncio.open_connection(*_address(self._place))
        )
        try:
            # clamd hangs up in the middle of content that is too large; its reply says so.
            with suppress(ConnectionError):
                writer.write(b"zINSTREAM\0")
                for start in range(0, len(content), _BLOCK_BYTES):
                    block = content[start : start + _BLOCK_BYTES]
                    writer.write(struct.pack("!L", len(block)) + block)
                    await writer.drain()
                writer.write(struct.pack("!L", 0))
                await writer.drain()
            reply = bytearray()
            while b"\0" not in reply and len(reply) < _REPLY_BYTES and (piece := await reader.read(_REPLY_BYTES)):
                reply += piece
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return reply.partition(b"\0")[0].decode(errors="replace").strip()

    def _failure(self, verdict: str, size: int) -> InfraError:
        if _TOO_LARGE in verdict:
            return Rejected(
                f"scan: {size} bytes are more than clamd takes: raise StreamMaxLength in its configuration, or "
                "split the document"
            )
        return Unavailable(f"FREKI_SCAN__CLAMD={self._place} gave no verdict but {verdict[:200]!r}")


def _address(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    return host.strip("[]"), int(port)
