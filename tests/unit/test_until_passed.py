"""Filling a generation ends once all that waited has passed the stages, and not with an outage."""

from collections.abc import Awaitable, Callable

import pytest

from freki.cli.until_passed import until_passed
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.wire.generations import Waiting

NOTHING = Waiting(records=0, oldest_s=0.0)


def looks(*found: Waiting | Exception) -> Callable[[], Awaitable[Waiting]]:
    left = iter(found)

    async def look() -> Waiting:
        each = next(left)
        if isinstance(each, Exception):
            raise each
        return each

    return look


async def waits(*found: Waiting | Exception) -> list[float]:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    await until_passed(looks(*found), sleep=sleep, clock=lambda: sum(waited))
    return waited


async def test_an_outage_of_broker_or_store_is_reported_and_outlasted(capsys: pytest.CaptureFixture[str]) -> None:
    filling = Waiting(records=2, oldest_s=60.0)
    outage = [Unavailable("connect: is Kafka up at FREKI_KAFKA__BOOTSTRAP=127.0.0.1:9092?")] * 3

    waited = await waits(filling, *outage, filling, NOTHING)

    assert len(waited) == 5
    assert sorted(waited[1:4]) == waited[1:4], "a long outage is reported less and less often"
    assert capsys.readouterr().err.count("is Kafka up at") == 3


async def test_what_no_wait_mends_ends_it() -> None:
    with pytest.raises(Misconfigured):
        await waits(Misconfigured("FREKI_KAFKA__PASSWORD is wrong"))


async def test_what_was_sent_just_before_is_waited_for() -> None:
    assert len(await waits(*(Waiting(records=3, oldest_s=0.5 + age_s) for age_s in range(4)), NOTHING)) == 4


async def test_changes_that_still_arrive_do_not_keep_it_from_being_full() -> None:
    old, young = Waiting(records=9, oldest_s=11.0), Waiting(records=1, oldest_s=0.5)

    # Each of three stages has passed on what it had.
    assert len(await waits(old, old, young, old, young, young)) == 5
