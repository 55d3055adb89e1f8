"""Filling a generation ends once it has caught up, and not with an outage."""

from collections.abc import Awaitable, Callable

import pytest

from freki.cli.generations import until_full
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.index import Statistics
from freki.streams.wire.generations import Waiting

Look = tuple[Statistics, int | None, Waiting]


def size(documents: int) -> Statistics:
    return Statistics(documents=documents, chunks=documents, deleted=0)


def looks(*found: Look | Exception) -> Callable[[], Awaitable[Look]]:
    left = iter(found)

    async def look() -> Look:
        each = next(left)
        if isinstance(each, Exception):
            raise each
        return each

    return look


async def waits(*found: Look | Exception) -> list[float]:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    await until_full(looks(*found), sleep=sleep)
    return waited


async def test_an_outage_of_broker_or_store_is_reported_and_outlasted(capsys: pytest.CaptureFixture[str]) -> None:
    filling = (size(1), 3, Waiting(records=2, oldest_s=60.0))
    full = (size(3), 3, Waiting(records=0, oldest_s=0.0))
    outage = [Unavailable("connect: is Kafka up at FREKI_KAFKA__BOOTSTRAP=127.0.0.1:9092?")] * 3

    waited = await waits(filling, *outage, filling, full)

    assert len(waited) == 5
    assert sorted(waited[1:4]) == waited[1:4], "a long outage is reported less and less often"
    assert capsys.readouterr().err.count("is Kafka up at") == 3


async def test_what_no_wait_mends_ends_it() -> None:
    with pytest.raises(Misconfigured):
        await waits(Misconfigured("FREKI_KAFKA__PASSWORD is wrong"))


async def test_changes_that_still_arrive_do_not_keep_it_from_being_full() -> None:
    assert len(await waits((size(3), 3, Waiting(records=1, oldest_s=11.0)), (size(3), 3, Waiting(1, 0.5)))) == 1
