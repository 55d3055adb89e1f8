"""How a reader disconnects."""

import asyncio

import pytest

from freki.infra.kafka import Reader
from freki.infra.settings import KafkaSettings


class Consumer:
    """Stops as aiokafka's consumer does: `stop` awaits a fetch that it cancels, then closes the connections."""

    def __init__(self, *, retrying: bool, error: Exception | None = None) -> None:
        self._client = self
        self._retrying = retrying
        self._error = error
        self.closed = False

    async def stop(self) -> None:
        if self._retrying:
            fetch = asyncio.create_task(asyncio.sleep(60))
            fetch.cancel()
            await fetch
        if self._error is not None:
            raise self._error
        await self.close()

    async def close(self) -> None:
        self.closed = True


def reading(consumer: Consumer) -> Reader:
    reader = Reader(KafkaSettings(), "topic", start="latest")
    reader._client = consumer
    return reader


@pytest.mark.parametrize("retrying", [True, False])
async def test_a_reader_disconnects_whether_or_not_a_fetch_is_tried_again(*, retrying: bool) -> None:
    consumer = Consumer(retrying=retrying)

    await reading(consumer).__aexit__(None, None, None)

    assert consumer.closed


async def test_what_goes_wrong_in_disconnecting_is_told() -> None:
    with pytest.raises(OSError, match="gone"):
        await reading(Consumer(retrying=False, error=OSError("gone"))).__aexit__(None, None, None)
