"""Retries with exponential backoff while a service is down."""

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
    """How long to wait between attempts: doubling, at most `longest_s`, less up to a half so that workers spread."""

    attempts: int = 8
    """About 11 s with the other defaults: longer outages are the supervisor's, which restarts the worker."""
    bug_attempts: int = 3
    """Fewer: more of the same rarely helps, and all other records wait."""
    first_s: float = 0.1
    longest_s: float = 5.0

    def wait_s(self, attempt: int, spread: float) -> float:
        """Seconds after the given attempt, 1-based; `spread` in 0..1 is drawn anew each time."""
        return backoff(attempt, first=self.first_s, longest=self.longest_s, jitter=spread)


class Retry:
    """Repeats the calls of one stage."""

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
        """Attempts for an exception that nobody expected."""
        return self._backoff.bug_attempts

    async def while_unavailable(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work` while it raises Unavailable. Raises its last error once the attempts are used up."""
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
        """Wait after a failed attempt, 1-based."""
        wait_s = self._backoff.wait_s(attempt, random.random())  # noqa: S311 - spreads load, hides nothing
        self._meters.retried(self._stage, error)
        _log.warning("waiting to try again", stage=self._stage, attempt=attempt, wait_s=wait_s, error=repr(error))
        await self._sleep(wait_s)
