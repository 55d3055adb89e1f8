"""A cache bounded by size and age."""

from collections.abc import Callable, Collection, Hashable, Mapping
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar, cast

from cachetools import TTLCache

from freki.infra.elapsed import elapsed_s
from freki.infra.telemetry.calls import Calls

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_ENTRY_BYTES = 512
"""Estimated overhead per entry."""


class _Held(NamedTuple):
    value: Any
    size: int


class BoundedCache(Generic[T]):
    """Values by key with LRU eviction; 0 bytes disable it. Not thread-safe.

    Keys are stored as 128-bit hashes only: a query may be long and contain personal data.
    """

    def __init__(
        self,
        name: str,
        *,
        most_bytes: int,
        seconds: float,
        calls: Calls | None = None,
        timer: Callable[[], float] = elapsed_s,
    ) -> None:
        self._name = name
        self._calls = calls or Calls()
        self._timer = timer
        self._entries = _Counted(most_bytes, seconds, timer)
        self.held_bytes = 0
        """Estimated size of all entries, which any thread may read; to look at the entries themselves expires some."""
        self._calls.watch(name, self)

    def get(self, key: object, *, holds: Callable[[T], bool] = lambda _: True) -> T | None:
        """Return the value of a key of equal `repr`; None where it is absent, expired, evicted or does not hold."""
        return self._find([key], holds)[0]

    def get_all(self, keys: Collection[K]) -> dict[K, T]:
        """Return the values of keys, without those that are absent, expired or evicted."""
        return {key: value for key, value in zip(keys, self._find(keys), strict=True) if value is not None}

    def _find(self, keys: Collection[object], holds: Callable[[T], bool] = lambda _: True) -> list[T | None]:
        """Return the value of each key, or None."""
        # Whatever expired goes at once: it may be content of documents that were erased.
        self._entries.expire()
        held = [each if each and holds(each.value) else None for each in map(self._entries.get, map(_digest, keys))]
        misses = held.count(None)
        # Together: counting takes longer than a look-up.
        self._calls.looked_up(self._name, hits=len(held) - misses, misses=misses)
        self.held_bytes = int(self._entries.currsize)
        return [None if each is None else cast("T", each.value) for each in held]

    def keep(self, key: object, value: T, *, size: int) -> None:
        """Store a value of about `size` bytes, evicting the least recently used ones."""
        self.keep_all({key: value}, size=lambda _: size)

    def keep_all(self, values: Mapping[K, T], *, size: Callable[[T], int]) -> None:
        """Store values of about these sizes in bytes, evicting the least recently used ones."""
        for key, value in values.items():
            held = _Held(value, size(value))
            if held.size + _ENTRY_BYTES <= self._entries.maxsize:
                self._entries[_digest(key)] = held
        # Together, as in `_find`.
        self._calls.evicted(self._name, self._entries.take_evicted())
        self.held_bytes = int(self._entries.currsize)

    def resize(self, *, most_bytes: int, seconds: float) -> None:
        """Empty the cache, and give it another size and age."""
        self._entries = _Counted(most_bytes, seconds, self._timer)
        self.held_bytes = 0


class _Counted(TTLCache[bytes, _Held]):
    """Counts evictions."""

    def __init__(self, most_bytes: int, seconds: float, timer: Callable[[], float]) -> None:
        super().__init__(most_bytes, seconds, timer, getsizeof=lambda held: held.size + _ENTRY_BYTES)
        self._evicted = 0

    def popitem(self) -> tuple[bytes, _Held]:
        """Evict the least recently used entry."""
        self._evicted += 1
        return super().popitem()

    def take_evicted(self) -> int:
        """Return the number of evictions since the last call."""
        evicted, self._evicted = self._evicted, 0
        return evicted


def _digest(key: object) -> bytes:
    return blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()
