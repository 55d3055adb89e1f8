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
