"""Rewrapping data keys, beside their destruction and beside another one that does the same."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from itertools import cycle
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from freki.infra.milvus.data_keys import DataKeys
from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.milvus.layout import Row
from freki.infra.settings import MilvusSettings
from freki.schemas import RootId

ROOT, OTHER = RootId("d1"), RootId("d2")


class KeyRows:
    """The collection of keys in memory; each call of it waits for its turn."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.waiting: list[asyncio.Future[None]] = []

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn

    async def scan(
        self, _: object, condition: str, fields: Sequence[str], *, by: str, size: int = 0
    ) -> AsyncIterator[list[Row]]:
        await self._turn()
        column, _, values = condition.partition(" in ")
        wanted = json.loads(values) if values else None
        assert by in fields or size >= 0
        yield [dict(row) for row in self.rows.values() if wanted is None or row[column] in wanted]

    async def upsert(self, _: object, rows: Sequence[Row]) -> None:
        await self._turn()
        self.rows |= {row["id"]: row for row in rows}

    async def delete(self, _: object, ids: Collection[str]) -> None:
        await self._turn()
        for each in ids:
            self.rows.pop(each, None)

    async def has(self, _: object) -> bool:
        await self._turn()
        return True

    async def index_and_load(self, _: object, __: object) -> None:
        await self._turn()

    async def description(self, _: object) -> str:
        await self._turn()
        return json.dumps({"terms": "test:v2:terms"})


class Wraps:
    """A key service with two versions."""

    current = 1

    async def wrap(self, keys: Sequence[bytes]) -> list[str]:
        return [f"test:v{self.current}:{key.hex()}" for key in keys]

    async def unwrap(self, wrapped: Sequence[str]) -> list[bytes]:
        return [bytes.fromhex(each.rpartition(":")[2]) for each in wrapped]

    async def rewrap(self, wrapped: Sequence[str]) -> list[str]:
        return await self.wrap(await self.unwrap(wrapped))

    async def versions(self) -> Sequence[int]:
        return range(1, self.current + 1)

    async def rotate(self) -> int:
        self.current += 1
        return self.current


async def all_done(store: KeyRows, turns: Sequence[int], *calls: Awaitable[Any]) -> list[Any]:
    """Run calls at the same time, whose calls of the store take effect in the order that the turns tell."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    order = cycle(turns)
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        if store.waiting:
            store.waiting.pop(next(order) % len(store.waiting)).set_result(None)
    return [task.result() for task in tasks]


async def rotated() -> tuple[KeyRows, Wraps, Mapping[RootId, bytes]]:
    """Return a store with the keys of two documents, wrapped by a version that is the last one no more."""
    store, service = KeyRows(), Wraps()
    [made] = await all_done(store, [0], opened(store, service).for_writing([ROOT, OTHER]))
    await service.rotate()
    return store, service, {root_id: key.secret for root_id, key in made.items()}


def opened(store: KeyRows, service: Wraps) -> DataKeys:
    return DataKeys(store, service, cache_s=0.0, most=1)  # type: ignore[arg-type] # as far as it is used


turns = st.lists(st.integers(0, 7), min_size=1, max_size=40)


@given(turns)
async def test_a_key_that_is_destroyed_while_keys_are_wrapped_anew_does_not_come_back(turns: list[int]) -> None:
    store, service, keys = await rotated()

    wrapping, erasing = opened(store, service), opened(store, service)
    await all_done(store, turns, wrapping.rewrap(), erasing.destroy([ROOT]))

    kept = [row for row in store.rows.values() if row["root_id"] == OTHER]
    assert not [row for row in store.rows.values() if row["root_id"] == ROOT]
    assert [row["wrapped"] for row in kept] == [f"test:v2:{keys[OTHER].hex()}"]


@given(turns)
async def test_a_key_that_an_erasure_destroys_while_keys_are_wrapped_anew_does_not_come_back(turns: list[int]) -> None:
    store, service, keys = await rotated()
    log = MilvusGenerations(MilvusSettings())
    log._log = store  # type: ignore[assignment] # as far as it is used

    await all_done(store, turns, opened(store, service).rewrap(), log.destroy_keys("default", [ROOT]))

    kept = [row for row in store.rows.values() if row["root_id"] == OTHER]
    assert not [row for row in store.rows.values() if row["root_id"] == ROOT]
    assert [row["wrapped"] for row in kept] == [f"test:v2:{keys[OTHER].hex()}"]


@given(turns)
async def test_two_that_wrap_keys_anew_at_once_lose_none(turns: list[int]) -> None:
    store, service, keys = await rotated()

    await all_done(store, turns, *(opened(store, service).rewrap() for _ in range(2)))

    # Both may have written a row of a key.
    left = {(row["root_id"], row["wrapped"]) for row in store.rows.values() if row["key_id"] != "terms"}
    assert left == {(root_id, f"test:v2:{key.hex()}") for root_id, key in keys.items()}
    [counts] = await all_done(store, [0], opened(store, service).versions())
    assert counts == {2: len(keys) + 1}


@example([1, 2, 1, 0, 2, 2, 0])
@given(turns)
async def test_a_key_that_is_destroyed_while_two_wrap_keys_anew_does_not_come_back(turns: list[int]) -> None:
    store, service, keys = await rotated()

    wrapping = [opened(store, service).rewrap() for _ in range(2)]
    await all_done(store, turns, *wrapping, opened(store, service).destroy([ROOT]))

    assert not [row for row in store.rows.values() if row["root_id"] == ROOT]
    assert {row["wrapped"] for row in store.rows.values() if row["root_id"] == OTHER} == {
        f"test:v2:{keys[OTHER].hex()}"
    }
