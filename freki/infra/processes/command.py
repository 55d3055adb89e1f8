"""Commands of the settings: run with a time limit, without Freki's settings in their environment."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from freki.client.tasks import ends_within
from freki.infra.processes.environment import without_settings
from freki.schemas.errors import Misconfigured, Unavailable

_PIECE_BYTES = 65_536
_SAID_CHARS = 200
_KILLED_S = 5.0
"""Time for a killed process to end, in seconds: one that reads a dead disk may not."""


class CommandResult(NamedTuple):
    """What a command left."""

    code: int
    """Exit code; negative: the signal that killed it."""
    out: bytes
    said: str
    """The last 200 characters of its standard error."""


class TooMuchOutput(Exception):
    """A command wrote more to its standard output than it may."""


async def run_command(
    words: Sequence[str], content: bytes | None, *, setting: str, timeout_s: float, max_bytes: int
) -> CommandResult:
    """Run a command; content: its standard input, None: nothing.

    setting: name of the setting that has the command, for errors; max_bytes: of its standard output. Raises
    Misconfigured if it cannot be run, Unavailable if the machine does not let it, TimeoutError after `timeout_s`, and
    TooMuchOutput; it is then killed, with all that it started.
    """
    # Its arguments may be secret.
    shown = f"{setting}={words[0]}"
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=DEVNULL if content is None else PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=without_settings(),
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise Misconfigured(f"{shown} cannot be run: {error.strerror}; correct it") from error
    except OSError as error:
        raise Unavailable(f"{shown} cannot be run: {error.strerror}") from error
    async with _killed_on_error(process), asyncio.timeout(timeout_s):
        out, said = await _talk(process, content, max_bytes)
        code = await process.wait()
    return CommandResult(code, out, said.decode(errors="replace").strip()[-_SAID_CHARS:])


async def _talk(process: Process, content: bytes | None, max_bytes: int) -> tuple[bytes, bytes]:
    """Write standard input while reading standard output, and the end of standard error, until both end."""
    try:
        async with asyncio.TaskGroup() as pipes:
            out = pipes.create_task(_read(process.stdout, max_bytes))
            said = pipes.create_task(_last(process.stderr))
            pipes.create_task(_write(process.stdin, content))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return out.result(), said.result()


async def _read(pipe: asyncio.StreamReader | None, max_bytes: int) -> bytes:
    """Read all, which stays in memory: a program in a loop would fill it."""
    raw = bytearray()
    while pipe and (piece := await pipe.read(_PIECE_BYTES)):
        raw += piece
        if len(raw) > max_bytes:
            raise TooMuchOutput
    return bytes(raw)


async def _last(pipe: asyncio.StreamReader | None) -> bytes:
    raw = b""
    while pipe and (piece := await pipe.read(_PIECE_BYTES)):
        raw = (raw + piece)[-_PIECE_BYTES:]
    return raw


async def _write(pipe: asyncio.StreamWriter | None, content: bytes | None) -> None:
    if pipe is None or content is None:
        return
    # A command need not read all, or anything.
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(content)
        await pipe.drain()
    pipe.close()


@asynccontextmanager
async def _killed_on_error(process: Process) -> AsyncIterator[None]:
    """Kill the process and all that it started, which may hold its output open after it has ended."""
    try:
        yield
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # asyncio closes a pipe at its end only, which it does not see while more waits than it reads ahead.
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public closes it
        await ends_within(_KILLED_S, process.wait())
        raise
