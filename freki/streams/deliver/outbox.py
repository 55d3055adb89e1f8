"""Sending of records, each with its trace."""

import asyncio
from collections.abc import Sequence
from functools import partial

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
        deliveries: list[asyncio.Future[object]] = []
        try:
            for record in records:
                deliveries.append(await self._queue(record))  # noqa: PERF401 - queued deliveries must be awaited on errors
        except asyncio.CancelledError:
            for delivery in deliveries:
                delivery.cancel()
            raise
        finally:
            results = await asyncio.gather(*deliveries, return_exceptions=True)
            # The spans of deliveries that had ended before end in the next turn of the loop.
            await asyncio.sleep(0)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _queue(self, record: Outgoing) -> asyncio.Future[object]:
        span, headers = sending(self._tracer, record)
        try:
            delivery = asyncio.ensure_future(
                await self._producer.send(
                    record.topic, key=record.key, value=record.value, headers=headers, partition=record.partition
                )
            )
        except BaseException as error:
            failed(span, error)
            span.end()
            raise
        # Not a task that awaits it: one that is cancelled before it has begun never runs.
        delivery.add_done_callback(partial(_end, span))
        return delivery


def _end(span: Span, delivery: asyncio.Future[object]) -> None:
    error = asyncio.CancelledError() if delivery.cancelled() else delivery.exception()
    if error is not None:
        failed(span, error)
    span.end()
