"""Remembers what was worked out for questions, within bytes and seconds."""

import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar, cast

from cachetools import TTLCache

from freki.infra.telemetry.calls import Calls

T = TypeVar("T")

_ENTRY_BYTES = 512
"""About what an entry takes besides its value."""


class _Held(NamedTuple):
    value: Any
    size: int


class BoundedCache(Generic[T]):
    """Values by key, the least recently used forgotten first; 0 bytes: none are kept. For one thread.

    Keys are not kept, only 128 bits of hash: a question may be long, and names somebody.
    """

    def __init__(
        self,
        name: str,
        *,
        most_bytes: int,
        seconds: float,
        calls: Calls | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._calls = calls or Calls()
        self._entries = _Counted(most_bytes, seconds, timer)

    def get(self, key: object) -> T | None:
        """Give what was kept under a key of equal `repr`, unless it was forgotten."""
        held = self._entries.get(_digest(key))
        self._calls.looked_up(self._name, hits=int(held is not None), misses=int(held is None))
        return None if held is None else cast("T", held.value)

    def keep(self, key: object, value: T, *, size: int) -> None:
        """Remember a value of about so many bytes, for others that were needed less recently."""
        if size + _ENTRY_BYTES <= self._entries.maxsize:
            self._entries[_digest(key)] = _Held(value, size)
        self._calls.holds(self._name, self.held_bytes)
        self._calls.evicted(self._name, self._entries.take_evicted())

    @property
    def held_bytes(self) -> int:
        """About what all entries take."""
        return int(self._entries.currsize)


class _Counted(TTLCache[bytes, _Held]):
    """Counts what had to go for others."""

    def __init__(self, most_bytes: int, seconds: float, timer: Callable[[], float]) -> None:
        super().__init__(most_bytes, seconds, timer, getsizeof=lambda held: held.size + _ENTRY_BYTES)
        self._evicted = 0

    def popitem(self) -> tuple[bytes, _Held]:
        """Let the least recently used go."""
        self._evicted += 1
        return super().popitem()

    def take_evicted(self) -> int:
        """Give how many went since the last look."""
        evicted, self._evicted = self._evicted, 0
        return evicted


def _digest(key: object) -> bytes:
    return blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()
