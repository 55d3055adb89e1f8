"""Commands of the settings: run with a time limit, without Freki's settings in their environment."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from freki.infra.processes.environment import without_settings
from freki.schemas.errors import Misconfigured, Unavailable


class CommandResult(NamedTuple):
    """What a command left."""

    code: int
    """Exit code; negative: the signal that killed it."""
    out: bytes
    said: str
    """The last 200 characters of its standard error."""


async def run_command(words: Sequence[str], content: bytes | None, *, setting: str, timeout_s: float) -> CommandResult:
    """Run a command; content: its standard input, None: nothing.

    setting: name of the setting that has the command, for errors. Raises Misconfigured if it cannot be run,
    Unavailable if the machine does not let it, and TimeoutError after `timeout_s`; it is then killed, with all that it
    started.
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
    with _ended(process):
        async with asyncio.timeout(timeout_s):
            out, said = await process.communicate(content)
    code = process.returncode
    return CommandResult(0 if code is None else code, out, said.decode(errors="replace").strip()[-200:])


@contextmanager
def _ended(process: asyncio.subprocess.Process) -> Iterator[None]:
    """Kill the process and all that it started, unless it has ended."""
    try:
        yield
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
