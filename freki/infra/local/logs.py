"""Logs of child processes: files of bounded size, and the last lines in memory."""

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from freki.client.tasks import ends_within

LIMIT_BYTES = 5_000_000
"""Maximum size of a log before it is rotated; one rotated file is kept."""

TAIL_LINES = 20
TAIL_CHARS = 500
"""Maximum characters of a line in the tail."""


class BoundedLog:
    """Appends to `path`, and rotates it to `path.1` when full."""

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit = limit_bytes
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._partial = b""

    def write(self, data: bytes) -> None:
        """Append; if writing fails, only the tail is kept."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines.extend(_shown(line) for line in lines)
        # Bounds the memory used by an unterminated line.
        self._partial = self._partial[-4 * TAIL_CHARS :]
        try:
            self._append(data)
        except OSError as error:
            note = f"[{self._path}: {error.strerror}]"
            if note not in self._lines:
                self._lines.append(note)

    def tail(self) -> tuple[str, ...]:
        """Return the last lines, oldest first, the unfinished one included."""
        unfinished = [_shown(self._partial)] if self._partial else []
        return (*self._lines, *unfinished)[-TAIL_LINES:]

    def clear_tail(self) -> None:
        """Clear the last lines before another process starts."""
        self._lines.clear()
        self._partial = b""

    def _append(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)
            full = file.tell() >= self._limit
        if full:
            self._path.replace(self._path.with_name(self._path.name + ".1"))


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip()[:TAIL_CHARS]


class LogPipe(asyncio.Protocol):
    """Copies the output of a process and its descendants to a log, until the last of them ends.

    `fatal` is set once the output has any of `fatal_output`.
    """

    def __init__(self, log: BoundedLog, fatal_output: Sequence[bytes] = ()) -> None:
        self._log = log
        self._fatal_output = fatal_output
        self._recent = b""
        self.fatal = asyncio.Event()
        self._closed = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None

    async def open(self) -> int:
        """Create the pipe; return its writing end, which the caller closes once a child has inherited it."""
        reading, writing = os.pipe()
        self._log.clear_tail()
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(reading, "rb", buffering=0))
        return writing

    async def drain(self, timeout_s: float) -> None:
        """Wait for the end of the output, at most `timeout_s`, then close."""
        try:
            await ends_within(timeout_s, self._closed.wait())
        finally:
            if self._transport is not None:
                self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Write output to the log."""
        self._log.write(data)
        recent = self._recent + data
        if any(part in recent for part in self._fatal_output):
            self.fatal.set()
        # What is looked for may come in two pieces.
        self._recent = recent[-max(map(len, self._fatal_output), default=1) :]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names the argument
        """Mark the end of the output."""
        self._closed.set()
