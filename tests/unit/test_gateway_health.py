"""APIs know whether the broker answers before a probe asks."""

import asyncio
from collections.abc import Iterator

import pytest

from freki.schemas.errors import Unavailable
from tests.unit.questions import gateway_of


async def test_what_the_broker_answered_last_is_what_probes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.streams.gateway._LOOK_S", 0.01)
    gateway = gateway_of()
    told: list[bool] = []

    def looks() -> Iterator[str]:
        yield from ("answers", "refuses", "answers", "hangs", "answers", "end")

    answers = looks()

    async def check() -> None:
        told.append(gateway.hears_broker)
        match next(answers):
            case "refuses":
                raise Unavailable("is Kafka up?")
            case "hangs":
                await asyncio.Event().wait()
            case "end":
                raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await gateway.watch_broker(check)

    assert told == [True, True, False, True, False, True]
