"""A store behind a network: every call of the index in memory takes time, and may fail, hang, or take effect late."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache, partial
from random import Random
from typing import Any

from freki.schemas.errors import Unavailable
from tests.memory_index import MemoryIndex
from tests.simulation import adapter
from tests.simulation.adapter import BOUNDED, WRITES, Watch, run_now
from tests.simulation.network import Network

LIMIT_S = 10.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 1.0
OnCall = Callable[[str, Sequence[Any]], bool]
SNAPSHOT_S = 0.5
LONGEST_STALE_S = 4.0


class StoreServer:
    """The state that all processes share, and what it was a few seconds ago."""

    def __init__(self, index: MemoryIndex, network: Network, random: Random, *, bounded: bool) -> None:
        self.index = index
        self.note: Callable[..., None] | None = None
        """Is told of each write when it takes effect."""
        self.network = network
        self.random = random
        self.watch = Watch(index)
        self._bounded = bounded
        self._snapshots: list[tuple[float, MemoryIndex]] = []

    def writes(self) -> None:
        """Keep what is there, where a search may still see it."""
        now_s = self.network.loop.time()
        if self._bounded and (not self._snapshots or now_s - self._snapshots[-1][0] > SNAPSHOT_S):
            self._snapshots = [each for each in self._snapshots if now_s - each[0] < LONGEST_STALE_S]
            self._snapshots.append((now_s, _snapshot(self.index)))

    def seen(self, name: str, options: dict[str, Any]) -> MemoryIndex:
        """Choose the state that a read sees."""
        if not self._bounded or name not in BOUNDED or options.get("strong", True):
            return self.index
        now_s = self.network.loop.time()
        older = [state for at_s, state in self._snapshots if now_s - at_s < LONGEST_STALE_S]
        return self.random.choice([self.index, *older])


class StoreClient:
    """What a process holds of the store: any method of the index. Repeats what fails until its time limit."""

    def __init__(self, server: StoreServer, name: str, on_call: OnCall) -> None:
        """Connect; `on_call` is told of each call, and tells whether the process may have been stopped."""
        self._server = server
        self._name = name
        self._on_call = on_call

    def __getattr__(self, name: str) -> Any:
        call = self._listed if _is_listing(name) else self._call
        return partial(call, name)

    async def _listed(self, name: str, *args: Any, **options: Any) -> AsyncIterator[Any]:
        async def listed(index: MemoryIndex) -> list[Any]:
            return [each async for each in getattr(index, name)(*args, **options)]

        for each in await self._persist([lambda: run_now(listed(self._server.index))]):
            yield each

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if self._on_call(name, args):
            await asyncio.sleep(0)
        if name not in WRITES:
            return await self._persist([lambda: self._read(name, args, options)])
        pieces = self._pieces(name, args)
        return await self._persist([partial(self._write, name, piece, options) for piece in pieces])

    def _pieces(self, name: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Cut a write into what takes effect at different times; mostly it is not cut at all."""
        if self._server.random.random() < 0.5:
            return [args]
        pieces = WRITES[name](*args)
        self._server.random.shuffle(pieces)
        return pieces or [args]

    def _read(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return run_now(getattr(self._server.seen(name, options), name)(*args, **options))

    def _write(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        self._server.writes()
        if self._server.note is not None:
            self._server.note("store", self._name, name, *map(adapter.brief, args))
        result = run_now(getattr(self._server.index, name)(*args, **options))
        self._server.watch.after(name, args)
        return result

    async def _persist(self, effects: list[Callable[[], Any]]) -> Any:
        """Repeat the request until it succeeds, is refused, or the time is over."""
        network, wait_s = self._server.network, FIRST_WAIT_S
        until_s = network.loop.time() + LIMIT_S
        while True:
            left_s = until_s - network.loop.time()
            try:
                return await network.request("store", *effects, patience_s=left_s)
            except Unavailable:
                if network.loop.time() + wait_s >= until_s:
                    raise
            await asyncio.sleep(wait_s * (1 + self._server.random.random()))
            wait_s = min(LONGEST_WAIT_S, 2 * wait_s)


@cache
def _is_listing(name: str) -> bool:
    return inspect.isasyncgenfunction(getattr(MemoryIndex, name))


def _snapshot(index: MemoryIndex) -> MemoryIndex:
    """Copy the containers of an index; what they hold never changes."""
    copied = object.__new__(type(index))
    copied.__dict__.update({name: _copied(value) for name, value in index.__dict__.items()})
    return copied


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, (set, list)):
        return type(value)(value)
    return value
