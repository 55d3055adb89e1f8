"""Scan by a command, such as `clamdscan --no-summary --fdpass {path}`."""

import asyncio
import os
import re
import shlex
import signal
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from freki.infra.processes.environment import without_settings
from freki.schemas.errors import Misconfigured, Unavailable

PATH = "{path}"
"""Word part that stands for the path of a file with the content; without it the command reads standard input."""
_FOUND = 1
_NAMED = re.compile(r"^.*: (.+) FOUND\s*$", re.MULTILINE)
"""Line by which clamscan and clamdscan name what they found."""


class CommandScanner:
    """A scanner that runs a command for each content. Satisfies Scanner of `streams.ports`."""

    def __init__(self, command: str, *, timeout_s: float) -> None:
        """Create a scanner; command: as a shell would split it."""
        self._words = shlex.split(command)
        self._timeout_s = timeout_s
        self.engine = Path(self._words[0]).name

    async def scan(self, content: bytes) -> str | None:
        """Return the name of what was found; None if the content is clean.

        Raises Unavailable if the command fails or takes too long, and Misconfigured if it cannot be run.
        """
        if not any(PATH in word for word in self._words):
            return await self._run(self._words, content)
        with await asyncio.to_thread(_written, content) as file:
            return await self._run([word.replace(PATH, file.name) for word in self._words], None)

    async def _run(self, words: Sequence[str], content: bytes | None) -> str | None:
        # Its arguments may be secret.
        setting = f"FREKI_SCAN__COMMAND={words[0]}"
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
            raise Misconfigured(f"{setting} cannot be run: {error.strerror}; correct it") from error
        except OSError as error:
            raise Unavailable(f"{setting} cannot be run: {error.strerror}") from error
        with _ended(process):
            try:
                async with asyncio.timeout(self._timeout_s):
                    out, said = await process.communicate(content)
            except TimeoutError as error:
                limit = f"FREKI_SCAN__TIMEOUT_S={self._timeout_s:g}"
                raise Unavailable(f"{setting} gave no verdict within {limit}") from error
        if process.returncode == 0:
            return None
        if process.returncode == _FOUND:
            return _name(out.decode(errors="replace"))
        reason = said.decode(errors="replace").strip()[-200:]
        raise Unavailable(f"{setting} gave no verdict and ended with {process.returncode}: {reason}")


@contextmanager
def _ended(process: asyncio.subprocess.Process) -> Iterator[None]:
    """Kill the process and all that it started, unless it has ended."""
    try:
        yield
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _written(content: bytes) -> "tempfile._TemporaryFileWrapper[bytes]":
    file = tempfile.NamedTemporaryFile(prefix="freki-scan-")  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.flush()
    return file


def _name(out: str) -> str:
    if named := _NAMED.search(out):
        return named[1]
    return next((line.strip() for line in out.splitlines() if line.strip()), "found")
