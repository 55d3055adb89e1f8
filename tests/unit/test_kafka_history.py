"""Records that a worker has not read itself are read for as long as the broker goes on to give them."""

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from freki.infra.kafka import History, Reader
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import Unavailable
from freki.schemas.names import Timestamp
from tests.simulated_time import in_simulated_time

PLACE = TopicPartition("queries", 0)
LIMIT_S = 30.0


class SlowConsumer:
    """A consumer that passes a record every 20 seconds, until it gets no more."""

    def __init__(self, records: int, *, aborted: range = range(0)) -> None:
        self._records = records
        self._aborted = aborted
        self._at = 0

    def assign(self, places: Sequence[TopicPartition]) -> None:
        assert places == [PLACE]

    def seek(self, _place: TopicPartition, offset: int) -> None:
        self._at = offset

    async def beginning_offsets(self, _places: object) -> dict[TopicPartition, int]:
        return {PLACE: 0}

    async def position(self, _place: TopicPartition) -> int:
        return self._at

    async def getmany(self, *_: object, **__: object) -> dict[TopicPartition, list[ConsumerRecord]]:
        await asyncio.sleep(20)
        if self._at == self._records:
            return {}
        self._at += 1
        if self._at - 1 in self._aborted:
            return {}
        return {PLACE: [ConsumerRecord("queries", 0, self._at - 1, 1, 0, b"k", b"v", None, 1, 1, ())]}


def history(records: int, *, aborted: range = range(0)) -> History:
    found = History(KafkaSettings(delivery_timeout_s=LIMIT_S), "queries")
    found._client = SlowConsumer(records, aborted=aborted)
    return found


@in_simulated_time
async def test_a_long_span_is_read_to_its_end_however_long_it_takes() -> None:
    """With a limit for the whole, each attempt would start over and end as the one before."""
    read = await history(50).before(0, 50, first=0, since=Timestamp(0))

    assert [one.offset for one in read] == list(range(50))


@in_simulated_time
async def test_records_of_aborted_transactions_are_passed_however_many_they_are() -> None:
    read = await history(50, aborted=range(10, 40)).before(0, 50, first=0, since=Timestamp(0))

    assert [one.offset for one in read] == [*range(10), *range(40, 50)]


@in_simulated_time
async def test_a_reader_to_the_end_passes_aborted_transactions_too() -> None:
    reader = Reader(KafkaSettings(delivery_timeout_s=LIMIT_S), "queries", start="earliest")
    reader._client, reader.ends = SlowConsumer(50, aborted=range(10, 40)), {0: 50}

    assert [one.offset async for one in reader.until_end()] == [*range(10), *range(40, 50)]


@in_simulated_time
async def test_a_reader_to_the_end_tells_of_a_broker_that_gives_nothing_more() -> None:
    reader = Reader(KafkaSettings(delivery_timeout_s=LIMIT_S), "queries", start="earliest")
    reader._client, reader.ends = SlowConsumer(5), {0: 50}

    with pytest.raises(Unavailable):
        [one async for one in reader.until_end()]


@in_simulated_time
async def test_a_broker_that_gives_nothing_more_is_told() -> None:
    with pytest.raises(Unavailable):
        await history(5).before(0, 50, first=0, since=Timestamp(0))
