"""Delivery of records: a record is done when its effects are stored or when it is a dead letter.

A bad record becomes a dead letter. While a service is down the stage retries with backoff and finally stops, so that
the partition is read again from the last committed offset. No record is logged and skipped.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import structlog
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Tracer, get_current_span

from freki.streams.deliver.dead_letter_queue import DeadLetterQueue
from freki.streams.deliver.errors import ErrorAction, action_for, stops_stage
from freki.streams.deliver.intake import Intake
from freki.streams.deliver.retry import Retry
from freki.streams.messages import Received, Stored
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import failed, processing

T = TypeVar("T")

Handle = Callable[[Sequence[Received[T]]], Awaitable[None]]
"""Handler of records, in order per key; returns when all effects are stored. Idempotent."""

_log = structlog.get_logger(__name__)


class WaitedForCancelled(RuntimeError):
    """Something that a handler waits for was cancelled, and the handler was not."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception
    action: ErrorAction


class Delivery(Generic[T]):
    """Delivery of batches of undecoded records to a handler, in order."""

    def __init__(
        self,
        stage: str,
        *,
        intake: Intake[T],
        handle: Handle[T],
        dead_letters: DeadLetterQueue[T],
        tracer: Tracer,
        meters: Meters | None = None,
        retry: Retry | None = None,
    ) -> None:
        self.stage = stage
        self._intake = intake
        self._handle = handle
        self._dead_letters = dead_letters
        self._tracer = tracer
        self._meters = meters or Meters()
        self._retry = retry or Retry(stage, meters=meters)

    async def deliver(self, events: Sequence[Stored], *, group: str) -> None:
        """Return when every event is done; only then may they be acknowledged.

        Raises Unavailable and Misconfigured: the worker must stop, and the events are read again.
        """
        await self._prepare(events)
        accepts = self._intake.accepts
        if accepts is not None:
            events = [event for event in events if accepts(event)]
        if events:
            await self._deliver(events, group)

    async def _prepare(self, events: Sequence[Stored]) -> None:
        if self._intake.prepare is None:
            return
        try:
            await self._retry.while_unavailable(partial(self._intake.prepare, [event.value for event in events]))
        except Exception as error:
            if stops_stage(error):
                raise
            # Decoding finds the record that causes the error.
            _log.warning(
                "could not fetch what decoding needs for all records of a batch", stage=self.stage, error=repr(error)
            )

    async def _deliver(self, events: Sequence[Stored], group: str) -> None:
        with processing(self._tracer, self.stage, group, events) as traces:
            good: list[tuple[Stored, Received[T]]] = []
            for event, trace in zip(events, traces, strict=True):
                try:
                    good.append((event, self._intake.read(event, trace)))
                except Exception as error:  # noqa: BLE001 - no input may stop the stage
                    await self._send_dead_letter(event, None, error, trace, attempts=0)
            if good:
                await self._handle_or_bisect(good)

    async def _handle_or_bisect(self, batch: Sequence[tuple[Stored, Received[T]]]) -> None:
        """Handle a batch; after an error handle its halves, down to the record that causes the error."""
        failure = await self._attempt([received for _, received in batch])
        if failure is None:
            return
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._handle_or_bisect(batch[:middle])
            await self._handle_or_bisect(batch[middle:])
            return
        attempts = 1
        while failure.action is ErrorAction.BUG and attempts < self._retry.bug_attempts:
            await self._retry.pause(attempts, failure.error)
            failure = await self._attempt([batch[0][1]])
            attempts += 1
            if failure is None:
                return
        event, received = batch[0]
        await self._send_dead_letter(event, received, failure.error, received.trace, attempts=attempts)

    async def _attempt(self, batch: Sequence[Received[T]]) -> _Failure | None:
        """Handle a batch, with retries while a service is down; return the failure that its records cause, or None."""
        try:
            await self._retry.while_unavailable(lambda: self._handle(batch))
        except Exception as error:
            if stops_stage(error):
                raise
            return _Failure(error, action_for(error))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not this batch was cancelled but something that its handler waits for. As a cancellation it would end the
            # batch in silence: neither done nor read again before the next start.
            cancelled = WaitedForCancelled(f"what the handler waits for was cancelled: {error!r}")
            cancelled.__cause__ = error
            return _Failure(cancelled, action_for(cancelled))
        return None

    async def _send_dead_letter(
        self, event: Stored, received: Received[T] | None, error: Exception, trace: Context, *, attempts: int
    ) -> None:
        """Send the dead letter of a record, then report it."""
        letter = self._dead_letters.letter(event, error, stage=self.stage, attempts=attempts)
        token = attach(trace)
        try:
            failed(get_current_span(), error)
            await self._dead_letters.add(letter, self._retry)
            self._meters.count_dead_letter(self.stage, error)
            _log.warning(
                "dead letter",
                stage=self.stage,
                topic=letter.topic,
                partition=letter.partition,
                offset=letter.offset,
                error=letter.error,
                attempts=attempts,
            )
            await self._dead_letters.report(letter, received, self._retry)
        finally:
            detach(token)
