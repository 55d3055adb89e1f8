"""Whether processes that others started are gone."""

import asyncio
import os
from pathlib import Path


class Presence:
    """Tells when every process that ran `hold` is gone, by the end of a named pipe that they keep open."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.hold = f"exec 3>'{path}'"
        self._reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # Ours too: a process that is gone before it opened the pipe is gone as well.
        self._writing = os.open(path, os.O_WRONLY)

    async def ended(self) -> None:
        os.close(self._writing)
        os.set_blocking(self._reading, True)
        with os.fdopen(self._reading, "rb") as pipe:
            await asyncio.to_thread(pipe.read)
