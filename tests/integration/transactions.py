"""Transactions of somebody else's producer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from kafka import KafkaProducer

from freki.infra.settings import KafkaSettings


@asynccontextmanager
async def transaction(
    kafka: KafkaSettings, topic: str, key: bytes, value: bytes
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Write a record in a transaction that is open until what is yielded is called."""

    def begin() -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, key=key, value=value).get(10)
        return producer

    producer = await asyncio.to_thread(begin)
    try:
        yield lambda: asyncio.to_thread(producer.commit_transaction)
    finally:
        await asyncio.to_thread(producer.close, 1)
