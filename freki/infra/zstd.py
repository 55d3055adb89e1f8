"""Zstandard, read block by block."""

import io
from typing import Any

import zstandard

_COMPRESSED_BLOCK_BYTES = 1024
"""Zstandard makes up to 32,000 times more of it, so that a hostile file takes 32 MB at a time."""
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""What `zstd --long` needs."""


def plain(file: io.BufferedReader, *, compressed: bool) -> io.BufferedReader:
    """Read a file as it is, or decompress it block by block. Reading raises ZstdError where it is damaged or cut."""
    return io.BufferedReader(_Decompressed(file)) if compressed else file


class _Decompressed(io.RawIOBase):
    """The content of one Zstandard frame or several. The library's own reader takes a cut file for a whole one."""

    def __init__(self, compressed: io.BufferedReader) -> None:
        self._compressed = compressed
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        self._frame = self._decompressor.decompressobj()
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable bytes
        while not self._content:
            block = self._compressed.read(_COMPRESSED_BLOCK_BYTES)
            if not block:
                return self._end()
            self._content = memoryview(self._decompress(block))
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def _decompress(self, block: bytes) -> bytes:
        content = b""
        while block:
            if self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            content += self._frame.decompress(block)
            block = self._frame.unused_data
        return content

    def _end(self) -> int:
        if not self._frame.eof:
            raise zstandard.ZstdError("it ends too early")
        return 0
