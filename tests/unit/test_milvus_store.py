import asyncio
import time

import pytest
from pymilvus.exceptions import ConnectError

from freki.infra.milvus.layout import CHUNKS
from freki.infra.milvus.store import MilvusStore
from freki.infra.settings import MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import Unavailable


async def test_an_attempt_that_fails_after_the_time_limit_is_told_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine an attempt can end after the limit, before the loop could cancel it."""
    store = MilvusStore(MilvusSettings(uri="http://127.0.0.1:1", timeout_s=0.05), None, Calls())
    store.open()

    async def busy(*_: object, **__: object) -> bool:
        time.sleep(0.06)  # noqa: ASYNC251 - the loop is kept from cancelling it
        raise ConnectError(message="Fail connecting to server")

    monkeypatch.setattr(store._client, "has_collection", busy)

    with pytest.raises(Unavailable, match=r"look for \w+: Fail connecting .* \(for 0.05 s\)"):
        await store.has(CHUNKS)
    await store.close()


async def test_the_names_of_collections_are_asked_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that stands still and goes on to hold its connections would keep a command, or a start, for ever."""
    monkeypatch.setattr("freki.infra.milvus.store.DDL_TIMEOUT_S", 0.5)
    store = MilvusStore(MilvusSettings(uri="http://127.0.0.1:1"), None, Calls())
    store.open()
    failing = True

    async def listed(*_: object, **options: object) -> list[str]:
        nonlocal failing
        assert options["retry_times"] == 1, "the client's own retries take minutes"
        if failing:
            failing = False
            raise ConnectError(message="Fail connecting to server")
        return ["freki_g1_chunks"]

    async def silent(*_: object, **__: object) -> list[str]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(store._client, "list_collections", listed)
    assert await store.names() == ["freki_g1_chunks"]
    monkeypatch.setattr(store._client, "list_collections", silent)
    with pytest.raises(Unavailable, match=r"list collections: no answer from http://127\.0\.0\.1:1 within 0\.5 s"):
        async with asyncio.timeout(30):
            await store.names()
    await store.close()
