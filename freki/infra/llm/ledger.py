"""Daily token budget of a language model, shared by all workers of a machine."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog
from filelock import FileLock, Timeout

from freki.schemas.errors import InfraError, Misconfigured, Unavailable

_log = structlog.get_logger(__name__)

_LOCK_S = 10.0
"""Timeout for the file lock, which is held for less than a millisecond."""


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

    async def take(self, tokens: int) -> bool:
        """Reserve tokens; return False, without reserving any, if fewer are left today."""
        return await asyncio.to_thread(self._add, tokens)

    async def give_back(self, tokens: int) -> None:
        """Put unused tokens back; a negative number takes more. Raises nothing: what was paid for must not be lost."""
        try:
            await asyncio.to_thread(self._add, -tokens, by_force=True)
        except InfraError as error:
            # The next reservation fails, and says why.
            _log.warning("unused tokens could not be given back", error=repr(error))

    def _add(self, tokens: int, *, by_force: bool = False) -> bool:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock:
                # Once: midnight between two looks would count the tokens of one day for the next.
                today = self._day()
                used = self._used(today) + tokens
                if self._most and used > self._most and not by_force:
                    return False
                written = self._path.with_name(f"{self._path.name}.new")
                written.write_text(f"{today} {max(0, used)}\n", encoding="ascii")
                written.replace(self._path)
                return True
        except Timeout as error:
            raise Unavailable(f"{self._lock.lock_file} is locked; see FREKI_LLM__LEDGER") from error
        except OSError as error:
            raise Misconfigured(f"FREKI_LLM__LEDGER={self._path} cannot be written: {error}") from error

    def _used(self, today: str) -> int:
        try:
            day, tokens = self._path.read_text(encoding="ascii").split()
            used = int(tokens)
        except FileNotFoundError:
            return 0
        except ValueError as error:
            raise Misconfigured(f"FREKI_LLM__LEDGER={self._path} holds no day and number: remove it") from error
        return used if day == today else 0
