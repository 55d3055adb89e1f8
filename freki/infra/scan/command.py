"""Scan by a command, such as `clamdscan --no-summary --fdpass {path}`."""

import asyncio
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from freki.infra.processes.command import TooMuchOutput, run_command
from freki.infra.processes.scratch import put, remove_left, scratch_folder
from freki.schemas.errors import Unavailable

PATH = "{path}"
"""Word part that stands for the path of a file with the content; without it the command reads standard input."""
_SETTING = "FREKI_SCAN__COMMAND"
_SCRATCH = "freki-scan-"
_FOUND = 1
_MOST_BYTES = 16 << 20
"""Maximum output: a verdict is a few lines."""
_NAMED = re.compile(r"^.*: (.+) FOUND\s*$", re.MULTILINE)
"""Line by which clamscan and clamdscan name what they found."""


class CommandScanner:
    """A scanner that runs a command for each content. Satisfies Scanner of `streams.ports`."""

    def __init__(self, command: str, *, timeout_s: float) -> None:
        """Create a scanner; command: as a shell would split it."""
        self._words = shlex.split(command)
        self._timeout_s = timeout_s
        self.engine = Path(self._words[0]).name
        remove_left(_SCRATCH)

    async def scan(self, content: bytes) -> str | None:
        """Return the name of what was found; None if the content is clean.

        Raises Unavailable if the command fails or takes too long, and Misconfigured if it cannot be run.
        """
        if not any(PATH in word for word in self._words):
            return await self._run(self._words, content)
        with scratch_folder(_SCRATCH) as folder:
            file = folder / "content"
            await asyncio.to_thread(put, file, content)
            return await self._run([word.replace(PATH, str(file)) for word in self._words], None)

    async def _run(self, words: Sequence[str], content: bytes | None) -> str | None:
        setting = f"{_SETTING}={words[0]}"
        try:
            ended = await run_command(
                words, content, setting=_SETTING, timeout_s=self._timeout_s, max_bytes=_MOST_BYTES
            )
        except TooMuchOutput as error:
            raise Unavailable(f"{setting} gave no verdict, but more than {_MOST_BYTES >> 20} MB") from error
        except TimeoutError as error:
            limit = f"FREKI_SCAN__TIMEOUT_S={self._timeout_s:g}"
            raise Unavailable(f"{setting} gave no verdict within {limit}") from error
        if ended.code == 0:
            return None
        if ended.code == _FOUND:
            return _name(ended.out.decode(errors="replace"))
        raise Unavailable(f"{setting} gave no verdict and ended with {ended.code}: {ended.said}")


def _name(out: str) -> str:
    if named := _NAMED.search(out):
        return named[1]
    return next((line.strip() for line in out.splitlines() if line.strip()), "found")
