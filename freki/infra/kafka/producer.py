"""The Kafka producer."""

import asyncio
from dataclasses import dataclass
from typing import Self

from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata

from freki.client.kafka import stop_producer
from freki.client.wakeups import WakeupSender
from freki.infra.kafka.connection import (
    PROFILES,
    REQUEST_MARGIN_BYTES,
    client_options,
    connecting,
    translated,
    wakeups_of,
)
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import Rejected

_IN_FLIGHT = 1000
"""Maximum unconfirmed records."""
_BATCH_BYTES = 64 * 1024
"""Maximum size of a batch per partition."""
_CLOSE_S = 5.0
"""Time for queued records to leave when the producer closes, in seconds: what is not confirmed is processed again."""


@dataclass(frozen=True, slots=True)
class Position:
    """Partition and offset of a record."""

    partition: int
    offset: int


class KafkaProducer:
    """Sends records in order per partition, each confirmed by all replicas, at most 1000 unconfirmed at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._client: AIOKafkaProducer | None = None
        self._wakeups: WakeupSender | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises Unavailable, or Misconfigured naming the setting."""
        client = AIOKafkaProducer(
            acks="all",
            enable_idempotence=PROFILES[self._settings.profile].idempotent,
            # Records batch while a request is in flight; lingering slowed down bursts, and replies by 16 ms.
            linger_ms=0,
            max_batch_size=_BATCH_BYTES,
            max_request_size=self._settings.max_message_bytes + REQUEST_MARGIN_BYTES,
            request_timeout_ms=int(self._settings.delivery_timeout_s * 1000),
            **client_options(self._settings),
        )
        try:
            async with connecting("connect", self._settings):
                await client.start()
        except BaseException:
            await client.stop()
            raise
        self._client = client
        directory = wakeups_of(self._settings)
        self._wakeups = WakeupSender(directory) if directory is not None else None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Send queued records, as far as the broker takes them within a few seconds, then disconnect."""
        if self._client is not None:
            client, self._client = self._client, None
            await stop_producer(client, self._wakeups, timeout_s=_CLOSE_S)

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...] = (),
        partition: int | None = None,
    ) -> asyncio.Task[Position]:
        """Queue a record, in the partition of its key if none is given; the task ends when the broker has stored it.

        Both raise Rejected for an oversized record, Unavailable if the broker did not store it, and Misconfigured,
        naming the setting, otherwise. With an idempotent producer the task waits for as long as no broker answers.
        """
        if self._client is None:
            raise RuntimeError("the producer is not open")
        if key is None and value is None:
            raise Rejected("a record needs a key or a value")
        await self._slots.acquire()
        try:
            with translated(f"send to {topic}", self._settings):
                if partition is not None and partition not in await self._client.partitions_for(topic):
                    # It was added since the client asked last.
                    await self._client.client.force_metadata_update()
                stored = await self._client.send(
                    topic, key=key, value=value, headers=list(headers), partition=partition
                )
        except BaseException:
            self._slots.release()
            raise
        confirmed = asyncio.create_task(self._confirmed(topic, stored))
        # Not by the task: one that is cancelled before it has begun never runs.
        confirmed.add_done_callback(lambda _: self._slots.release())
        return confirmed

    async def _confirmed(self, topic: str, stored: asyncio.Future[RecordMetadata]) -> Position:
        with translated(f"send to {topic}", self._settings):
            metadata = await stored
        if self._wakeups is not None:
            self._wakeups.wake_up(topic)
        return Position(metadata.partition, metadata.offset)
