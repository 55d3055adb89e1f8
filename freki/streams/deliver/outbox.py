"""Sending of records, each with its trace."""

import asyncio
from collections.abc import Awaitable

from opentelemetry.trace import Span, Tracer

from freki.client.messages import Sink
from freki.streams.messages import Outgoing
from freki.streams.observe.tracing import failed, sending
from freki.streams.ports import Producer

__all__ = ["Outbox", "Sink"]


class Outbox:
    """Sender of records that waits for the broker's acknowledgement; each record has a span in its trace."""

    def __init__(self, producer: Producer, tracer: Tracer) -> None:
        self._producer = producer
        self._tracer = tracer

    async def send(self, *records: Outgoing) -> None:
        """Queue all records in order, then wait until the broker has stored all of them.

        Raises the first error, after all other deliveries have ended; any of the records may be stored then.
        """
        deliveries: list[Awaitable[None]] = []
        try:
            for record in records:
                deliveries.append(await self._queue(record))  # noqa: PERF401 - queued deliveries must be awaited on errors
        finally:
            results = await asyncio.gather(*deliveries, return_exceptions=True)
        for result in results:
            if result is not None:
                raise result

    async def _queue(self, record: Outgoing) -> Awaitable[None]:
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
