"""Streaming decompression of Zstandard."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard

from freki.schemas.errors import Rejected

_COMPRESSED_BLOCK_BYTES = 1024
"""Compressed bytes per read; with a ratio of up to 32,000 a malicious file takes 32 MB at a time."""
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""Maximum window, as required by `zstd --long`."""


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file; one that ends in `.zst` is decompressed. Raises Rejected where that fails, or reading within."""
    try:
        with path.open("rb") as file:
            yield io.BufferedReader(_Decompressed(file)) if path.suffix == ".zst" else file
    except OSError as error:
        raise Rejected(f"{path}: {error.strerror or error}") from error
    except zstandard.ZstdError as error:
        raise Rejected(f"{path} is no Zstandard file, or damaged: {error}") from error


class _Decompressed(io.RawIOBase):
    """Content of one or more Zstandard frames. The reader of the library does not detect truncated files."""

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
