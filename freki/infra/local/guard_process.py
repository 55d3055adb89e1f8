"""The guard process of a supervisor, started again whenever it ends."""

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Iterable

from freki.infra.local import guard

GUARD_PAUSE_S = 1.0
"""Delay before the guard is restarted."""


class GuardProcess:
    """Runs `guard.py`, restarts it if it ends, and reports process groups to it."""

    def __init__(self, groups: Callable[[], Iterable[int]], hold: Collection[int]) -> None:
        self._groups = groups
        self._hold = tuple(hold)
        self._closing = False

    def open(self) -> None:
        """Create the pipe for registering children, and start the guard."""
        # The open reading end prevents writes from failing while no guard runs.
        self._reading, self.pipe = os.pipe()
        self._task = asyncio.create_task(self._keep(), name="keep the guard")

    def forget(self, group: int) -> None:
        """Report the end of a process group to the guard."""
        os.write(self.pipe, b"-%d\n" % group)

    async def close(self) -> None:
        """Close the pipe, and wait until the guard has ended."""
        self._closing = True
        os.close(self.pipe)
        await self._task
        os.close(self._reading)

    async def _keep(self) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", guard.__file__),
                stdin=self._reading,
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=self._hold,
                start_new_session=True,
            )
            await process.wait()
            if self._closing:
                return
            os.write(self.pipe, b"".join(b"%d\n" % group for group in self._groups()))
            await asyncio.sleep(GUARD_PAUSE_S)
