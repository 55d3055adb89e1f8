"""Text of scans by a command, such as `ocrmypdf --skip-text --image-dpi 300 -l deu+eng {path} {output}`."""

import asyncio
import shlex
from pathlib import Path

from freki.infra.ocr.limits import MOST_BYTES
from freki.infra.processes.command import TooMuchOutput, run_command
from freki.infra.processes.scratch import put, remove_left, scratch_folder
from freki.schemas.errors import Rejected

PATH, OUTPUT = "{path}", "{output}"
"""Word parts that stand for the paths of the scan and of what the command writes; without them it gets the scan on
standard input and writes to standard output."""
_SETTING = "FREKI_OCR__COMMAND"
_SCRATCH = "freki-ocr-"


class CommandOcr:
    """A recogniser that runs a command for each scan. Satisfies Ocr of `streams.ports`."""

    def __init__(self, command: str, *, timeout_s: float, at_once: int, max_bytes: int = MOST_BYTES) -> None:
        """Create a recogniser; command: as a shell would split it, at_once: so many run side by side.

        max_bytes: of what it makes of a scan.
        """
        self._words = shlex.split(command)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._turns = asyncio.Semaphore(at_once)
        remove_left(_SCRATCH)

    async def read(self, content: bytes, media_type: str) -> tuple[bytes, str]:  # noqa: ARG002 - commands look themselves
        """Return the scan with its text, and its media type; empty: by its content.

        Raises Rejected if the command fails, takes too long or writes too much, Misconfigured if it cannot be run, and
        Unavailable if the machine does not let it.
        """
        async with self._turns:
            return await self._read(content), ""

    async def _read(self, content: bytes) -> bytes:
        with scratch_folder(_SCRATCH) as folder:
            source, target = folder / "scan", folder / "text"
            from_file, to_file = (any(part in word for word in self._words) for part in (PATH, OUTPUT))
            if from_file:
                await asyncio.to_thread(put, source, content)
            words = [word.replace(PATH, str(source)).replace(OUTPUT, str(target)) for word in self._words]
            try:
                ended = await run_command(
                    words,
                    None if from_file else content,
                    setting=_SETTING,
                    timeout_s=self._timeout_s,
                    max_bytes=self._max_bytes,
                )
            except TooMuchOutput as error:
                raise self._too_much() from error
            except TimeoutError as error:
                raise Rejected(f"OCR took more than FREKI_OCR__TIMEOUT_S={self._timeout_s:g}") from error
            if ended.code:
                raise Rejected(f"OCR ended with {ended.code}: {ended.said.replace(str(folder), '')}")
            return await asyncio.to_thread(self._written, target) if to_file else ended.out

    def _written(self, target: Path) -> bytes:
        if not target.is_file():
            raise Rejected("OCR wrote no file")
        try:
            with target.open("rb") as file:
                text = file.read(self._max_bytes + 1)
        except OSError as error:
            raise Rejected(f"OCR wrote a file that cannot be read: {error.strerror}") from error
        if len(text) > self._max_bytes:
            raise self._too_much()
        return text

    def _too_much(self) -> Rejected:
        return Rejected(f"OCR wrote more than {self._max_bytes} bytes")
