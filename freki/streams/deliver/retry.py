"""Retries with exponential backoff while a service is unavailable."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from freki.schemas.backoff import backoff
from freki.schemas.names import record
from freki.streams.deliver.errors import ErrorAction, action_for
from freki.streams.observe.meters import Meters

_log = structlog.get_logger(__name__)


@record
class Backoff:
    """Exponential backoff: doubling waits of at most `longest_s`, with up to 50 % jitter to spread workers."""

    attempts: int = 8
    """Maximum attempts while a service is unavailable, about 11 s in total; then the supervisor restarts the worker."""
    bug_attempts: int = 3
    """Maximum attempts after an unexpected exception; fewer, because repeating rarely helps and all records wait."""
    first_s: float = 0.1
    """First wait, in seconds."""
    longest_s: float = 5.0
    """Maximum wait, in seconds."""

    def wait_s(self, attempt: int, spread: float) -> float:
        """Return the wait after the given attempt (1-based), in seconds; spread: jitter in 0..1, drawn per attempt."""
        return backoff(attempt, first=self.first_s, longest=self.longest_s, jitter=spread)


class Retry:
    """Retries for the calls of one stage."""

    def __init__(
        self,
        stage: str,
        *,
        backoff: Backoff | None = None,
        meters: Meters | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._stage = stage
        self._backoff = backoff or Backoff()
        self._meters = meters or Meters()
        self._sleep = sleep

    @property
    def bug_attempts(self) -> int:
        """Maximum attempts after an unexpected exception."""
        return self._backoff.bug_attempts

    async def while_unavailable(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work` while it raises Unavailable. Raises its last error after the maximum number of attempts."""
        for attempt in range(1, self._backoff.attempts):
            try:
                await work()
            except Exception as error:
                if action_for(error) is not ErrorAction.RETRY:
                    raise
                await self.pause(attempt, error)
            else:
                return
        await work()

    async def pause(self, attempt: int, error: Exception) -> None:
        """Wait after a failed attempt (1-based)."""
        wait_s = self._backoff.wait_s(attempt, random.random())  # noqa: S311 - jitter, not cryptography
        self._meters.count_retry(self._stage, error)
        _log.warning("retrying after a wait", stage=self._stage, attempt=attempt, wait_s=wait_s, error=repr(error))
        await self._sleep(wait_s)
