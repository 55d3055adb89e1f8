"""How a reader disconnects, and where it begins."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from freki.client.kafka import to_record
from freki.infra.kafka import Reader
from freki.infra.settings import KafkaSettings
from freki.schemas.names import YEAR_10000_MS


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


class Told(NamedTuple):
    offset: int


class Broker:
    """Tells offsets by time for each of three partitions."""

    def __init__(self, *told: Told | None) -> None:
        self._told = told

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Told | None]:
        return dict(zip(times, self._told, strict=True))


@pytest.mark.parametrize(
    ("profile", "expected"), [("kafka", {0: 0, 1: 5, 2: 9}), ("local", {0: 0, 1: 5})], ids=["kafka", "local"]
)
async def test_a_reader_from_a_time_on_begins_at_its_first_record(profile: str, expected: Mapping[int, int]) -> None:
    """Where all records are older, Kafka tells nothing: the end; a broker that tells nothing is read from the start."""
    places = [TopicPartition("topic", number) for number in range(3)]
    reader = Reader(KafkaSettings.model_validate({"profile": profile}), "topic", start=1_000)
    ends = {place: 7 + place.partition for place in places}

    found = await reader._since(Broker(Told(0), Told(5), None), places, 1_000, ends)

    assert found == expected


@pytest.mark.parametrize(("given", "shown"), [(-1, 0), (2**62, YEAR_10000_MS - 1), (1_500, 1_500)])
def test_the_time_of_a_record_is_one_that_every_reader_can_show(given: int, shown: int) -> None:
    read = ConsumerRecord("topic", 0, 0, given, 0, b"k", b"v", None, 1, 1, ())

    assert to_record(read).timestamp_ms == shown
