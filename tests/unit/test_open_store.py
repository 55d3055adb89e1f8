"""How commands open the store where nothing listens."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from freki.infra.settings import MilvusSettings, Settings
from freki.schemas.errors import Unavailable
from freki.streams.wire.connect import open_generations, open_index

Open = Callable[[Settings], AbstractAsyncContextManager[Any]]
NOWHERE = "http://127.0.0.1:1"
OPEN = pytest.mark.parametrize("open_store", [open_index, open_generations])


@OPEN
async def test_where_nobody_named_a_store_nothing_is_awaited(open_store: Open) -> None:
    default = MilvusSettings.model_construct(uri=NOWHERE, _fields_set=set())
    settings = Settings().model_copy(update={"milvus": default})
    with pytest.raises(Unavailable, match=f"nothing listens at FREKI_MILVUS__URI={NOWHERE}"):
        async with open_store(settings):
            pass


@OPEN
async def test_a_store_that_was_named_has_the_time_of_the_settings(open_store: Open) -> None:
    settings = Settings(milvus=MilvusSettings(uri=NOWHERE, timeout_s=0.2))
    with pytest.raises(Unavailable, match=r"(for|within) 0.2 s"):
        async with open_store(settings):
            pass
