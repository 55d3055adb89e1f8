"""Sending of records, each with its trace."""

import asyncio
from collections.abc import Awaitable, Sequence

from opentelemetry.trace import Span, Tracer

from freki.client.messages import Sink
from freki.schemas.errors import Unavailable
from freki.streams.messages import Outgoing
from freki.streams.observe.tracing import failed, sending
from freki.streams.ports import Producer

__all__ = ["Outbox", "Sink"]


class Outbox:
    """Sender of records that waits for the broker's acknowledgement; each record has a span in its trace."""

    def __init__(self, producer: Producer, tracer: Tracer, *, limit_s: float | None = None) -> None:
        """Create it; limit_s: most seconds to wait for the broker; None: as long as it takes."""
        self._producer = producer
        self._tracer = tracer
        self._limit_s = limit_s

    async def send(self, *records: Outgoing) -> None:
        """Queue all records in order, then wait until the broker has stored all of them.

        Raises the first error, after all other deliveries have ended, and Unavailable after `limit_s` seconds; any of
        the records may be stored then.
        """
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                await self._send(records)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Unavailable(
                f"send to {records[0].topic}: the broker has not taken it within {self._limit_s:g} s; is Kafka up?"
                " It may be stored yet"
            ) from error

    async def _send(self, records: Sequence[Outgoing]) -> None:
        deliveries: list[asyncio.Future[None]] = []
        try:
            for record in records:
                deliveries.append(await self._queue(record))  # noqa: PERF401 - queued deliveries must be awaited on errors
        except asyncio.CancelledError:
            for delivery in deliveries:
                delivery.cancel()
            raise
        finally:
            results = await asyncio.gather(*deliveries, return_exceptions=True)
        for result in results:
            if result is not None:
                raise result

    async def _queue(self, record: Outgoing) -> asyncio.Future[None]:
        span, headers = sending(self._tracer, record)
        try:
            delivery = await self._producer.send(
                record.topic, key=record.key, value=record.value, headers=headers, partition=record.partition
            )
        except BaseException as error:
            failed(span, error)
            span.end()
            raise
        return asyncio.ensure_future(_delivered(delivery, span))


async def _delivered(delivery: Awaitable[object], span: Span) -> None:
    try:
        await delivery
    except BaseException as error:
        failed(span, error)
        raise
    finally:
        span.end()
