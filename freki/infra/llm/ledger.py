"""Daily token budget of a language model, shared by all workers of a machine."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import structlog
from filelock import FileLock, Timeout

from freki.schemas.errors import InfraError, Misconfigured, Unavailable

_log = structlog.get_logger(__name__)

_LOCK_S = 10.0
"""Timeout for the file lock, which is held for less than a millisecond."""
_LATEST_AHEAD = timedelta(days=1)
"""How far a counted day may be ahead of the clock: steps of clocks are hours."""


def today() -> str:
    """Return the current date in UTC."""
    return datetime.now(UTC).date().isoformat()


class TokenLedger:
    """Count of tokens per day in a file, which survives restarts of workers.

    Satisfies Ledger of `streams.ports`.
    """

    def __init__(self, path: Path, *, most: int, day: Callable[[], str] = today) -> None:
        """Set the file and the maximum tokens per day; 0: unlimited."""
        self._path = path
        self._most = most
        self._day = day
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=_LOCK_S)

    async def take(self, tokens: int) -> str | None:
        """Reserve tokens; return the day that they count for, or None, without reserving any, if fewer are left."""
        return await asyncio.to_thread(self._add, tokens)

    async def give_back(self, tokens: int, *, day: str) -> None:
        """Put unused tokens of a day back; a negative number takes more. Nothing changes once another day has begun.

        Raises nothing: what was paid for must not be lost.
        """
        try:
            await asyncio.to_thread(self._add, -tokens, taken_on=day)
        except InfraError as error:
            # The next reservation fails, and says why.
            _log.warning("unused tokens could not be given back", error=repr(error))

    def _add(self, tokens: int, *, taken_on: str | None = None) -> str | None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock:
                # Once: midnight between two looks would count the tokens of one day for the next.
                day, used = self._counted(self._day())
                if taken_on is not None and taken_on != day:
                    return None
                used += tokens
                if self._most and used > self._most and taken_on is None:
                    return None
                written = self._path.with_name(f"{self._path.name}.new")
                written.write_text(f"{day} {max(0, used)}\n", encoding="ascii")
                written.replace(self._path)
                return day
        except Timeout as error:
            raise Unavailable(f"{self._lock.lock_file} is locked; see FREKI_LLM__LEDGER") from error
        except OSError as error:
            raise Misconfigured(f"FREKI_LLM__LEDGER={self._path} cannot be written: {error}") from error

    def _counted(self, today: str) -> tuple[str, int]:
        """Return the day that counts, and its tokens: the next one if it had begun before the clock was put back.

        Otherwise a clock that goes back over midnight would grant the tokens of two days again. A day that is further
        ahead was an error of the clock, and would be counted until it comes.
        """
        try:
            day, tokens = self._path.read_text(encoding="ascii").split()
            used, last = int(tokens), date.fromisoformat(day)
        except FileNotFoundError:
            return today, 0
        except ValueError as error:
            raise Misconfigured(f"FREKI_LLM__LEDGER={self._path} holds no day and number: remove it") from error
        ahead = last - date.fromisoformat(today)
        return (day, used) if timedelta(0) <= ahead <= _LATEST_AHEAD else (today, 0)
