"""The one delivery rule: a record is done when its effects are, or when it lies in the dead letters.

A failure is of two kinds. The record is bad: it goes to the dead letters. The world is down: the stage waits and
tries again, and at last stops, so that the partition is read again from the last commit. Nothing is logged and skipped.
"""

import asyncio
import enum
import random
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import structlog
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Tracer, get_current_span

from freki.schemas.names import Timestamp, record
from freki.streams.deliver.dead_letters import (
    MESSAGE_BYTES,
    TRACEBACK_BYTES,
    DeadLetter,
    abridged,
    printable,
    to_record,
)
from freki.streams.deliver.messages import Received, Stored
from freki.streams.deliver.outbox import Outbox
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import failed, processing

T = TypeVar("T")

Decode = Callable[[bytes | None], T]
"""Bytes to record; None is a tombstone. Whatever it raises means that the record is bad."""
Handle = Callable[[Sequence[Received[T]]], Awaitable[None]]
"""Does the work for some records, in order per key, and returns when all effects are there. Doing it again is safe."""
Prepare = Callable[[Sequence[bytes | None]], Awaitable[None]]
"""Fetches what decoding these values will need; decoding itself never waits."""
RecordFilter = Callable[[Stored], bool]
"""Tells whether a record is for this stage to take; another one takes the rest."""
OnDeadLetter = Callable[[DeadLetter, Received[T] | None], Awaitable[None]]
"""Called after a record became a dead letter; None where it could not be decoded."""

_log = structlog.get_logger(__name__)


class NullKey(Exception):
    """A record without a key has no document and no order."""


class NullValue(Exception):
    """The topic of this stage knows no tombstones."""


class ErrorAction(enum.Enum):
    """What an exception means."""

    STOP = "stop"
    """A setting of ours is wrong: no record is to blame and waiting does not help."""
    RETRY = "retry"
    """The world is down."""
    BUG = "bug"
    """We did not foresee it: try again a few times, then the record is bad for us."""
    DEAD_LETTER = "dead_letter"
    """The record is bad."""


@record
class Failures:
    """Which exceptions mean what; an earlier field wins, and what stands in none is a bug."""

    stop: tuple[type[Exception], ...]
    retry: tuple[type[Exception], ...]
    dead_letter: tuple[type[Exception], ...]

    def action(self, error: Exception) -> ErrorAction:
        """Judge an exception; a group as the worst of what it holds."""
        if isinstance(error, ExceptionGroup):
            actions = {self.action(inner) for inner in error.exceptions}
            return next(action for action in ErrorAction if action in actions)
        if isinstance(error, self.stop):
            return ErrorAction.STOP
        if isinstance(error, self.retry):
            return ErrorAction.RETRY
        return ErrorAction.DEAD_LETTER if isinstance(error, self.dead_letter) else ErrorAction.BUG


@record
class Backoff:
    """How long to wait between attempts: doubling, at most `longest_s`, less up to a half so that workers spread."""

    attempts: int = 8
    """About 11 s with the other defaults: longer outages are the supervisor's, which restarts the worker."""
    bug_attempts: int = 3
    """Fewer: more of the same rarely helps, and all other records wait."""
    first_s: float = 0.1
    longest_s: float = 5.0

    def wait_s(self, attempt: int, spread: float) -> float:
        """Seconds after the given attempt, 1-based; `spread` in 0..1 is drawn anew each time."""
        return min(self.longest_s, self.first_s * 2.0 ** (attempt - 1)) * (1 - spread / 2)


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception
    action: ErrorAction


def required(decode: Callable[[bytes], T]) -> Decode[T]:
    """Decode for a topic without tombstones: a null value is a bad record."""

    def decode_value(value: bytes | None) -> T:
        if value is None:
            raise NullValue("the value is null, but this topic has no tombstones")
        return decode(value)

    return decode_value


def or_tombstone(decode: Callable[[bytes], T]) -> Decode[T | None]:
    """Decode for a topic with tombstones: a null value passes as None."""
    return lambda value: None if value is None else decode(value)


class Delivery(Generic[T]):
    """Takes batches of undecoded records to their end, in order."""

    def __init__(  # noqa: PLR0913 - one place where a stage is put together
        self,
        *,
        stage: str,
        decode: Decode[T],
        handle: Handle[T],
        outbox: Outbox,
        dead_letters: str,
        failures: Failures,
        tracer: Tracer,
        on_dead_letter: OnDeadLetter[T] | None = None,
        prepare: Prepare | None = None,
        keyed: bool = True,
        accepts: RecordFilter | None = None,
        backoff: Backoff | None = None,
        meters: Meters | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.stage = stage
        self._decode = decode
        self._handle = handle
        self._outbox = outbox
        self._dead_letters = dead_letters
        self._failures = failures
        self._tracer = tracer
        self._on_dead_letter = on_dead_letter
        self._prepare = prepare
        self._keyed = keyed
        self._accepts = accepts
        self._backoff = backoff or Backoff()
        self._meters = meters or Meters()
        self._sleep = sleep
        self._clock = clock

    async def deliver(self, events: Sequence[Stored], *, group: str) -> None:
        """Return when every event is done; then, and only then, may they be acknowledged.

        Raises what the world or a setting is to blame for: the worker has to stop, and the events come again.
        """
        await self._prepared(events)
        if self._accepts is not None:
            events = [event for event in events if self._accepts(event)]
        if events:
            await self._deliver(events, group)

    async def _prepared(self, events: Sequence[Stored]) -> None:
        if self._prepare is None:
            return
        try:
            await self._patiently(partial(self._prepare, [event.value for event in events]))
        except Exception as error:
            if self._stops(error):
                raise
            # Decoding tells which record is to blame.
            _log.warning("could not prepare for all records", stage=self.stage, error=repr(error))

    async def _deliver(self, events: Sequence[Stored], group: str) -> None:
        with processing(self._tracer, self.stage, group, events) as traces:
            good: list[tuple[Stored, Received[T]]] = []
            for event, trace in zip(events, traces, strict=True):
                try:
                    good.append((event, self._received(event, trace)))
                except Exception as error:  # noqa: BLE001 - no input may stop the stage
                    await self._send_to_dead_letters(event, None, error, trace, attempts=0)
            if good:
                await self._settle(good)

    def _received(self, event: Stored, trace: Context) -> Received[T]:
        if event.key is None and self._keyed:
            raise NullKey("the key is null")
        return Received(
            value=self._decode(event.value),
            key=event.key or b"",
            headers=event.headers,
            topic=event.topic,
            partition=event.partition,
            offset=event.offset,
            timestamp=Timestamp(event.timestamp_ms),
            trace=trace,
        )

    async def _settle(self, batch: Sequence[tuple[Stored, Received[T]]]) -> None:
        """Handle a batch; where it fails, its halves, down to the record that is to blame."""
        failure = await self._attempt([received for _, received in batch])
        if failure is None:
            return
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
            return
        attempts = 1
        while failure.action is ErrorAction.BUG and attempts < self._backoff.bug_attempts:
            await self._pause(attempts, failure.error)
            failure = await self._attempt([batch[0][1]])
            attempts += 1
            if failure is None:
                return
        event, received = batch[0]
        await self._send_to_dead_letters(event, received, failure.error, received.trace, attempts=attempts)

    async def _attempt(self, batch: Sequence[Received[T]]) -> _Failure | None:
        """Handle a batch, waiting while the world is down; give the failure that its records are to blame for."""
        try:
            await self._patiently(lambda: self._handle(batch))
        except Exception as error:
            if self._stops(error):
                raise
            return _Failure(error, self._failures.action(error))
        return None

    def _stops(self, error: Exception) -> bool:
        """Tell whether the world or a setting is to blame, which ends the stage; else it is a record."""
        return self._failures.action(error) in {ErrorAction.STOP, ErrorAction.RETRY}

    async def _patiently(self, work: Callable[[], Awaitable[None]]) -> None:
        for attempt in range(1, self._backoff.attempts):
            try:
                await work()
            except Exception as error:
                if self._failures.action(error) is not ErrorAction.RETRY:
                    raise
                await self._pause(attempt, error)
            else:
                return
        await work()

    async def _pause(self, attempt: int, error: Exception) -> None:
        wait_s = self._backoff.wait_s(attempt, random.random())  # noqa: S311 - spreads load, hides nothing
        self._meters.retried(self.stage, error)
        _log.warning("waiting to try again", stage=self.stage, attempt=attempt, wait_s=wait_s, error=repr(error))
        await self._sleep(wait_s)

    async def _send_to_dead_letters(
        self, event: Stored, received: Received[T] | None, error: Exception, trace: Context, *, attempts: int
    ) -> None:
        expected = received is None or self._failures.action(error) is ErrorAction.DEAD_LETTER
        letter = DeadLetter(
            key=event.key,
            value=event.value,
            headers=event.headers,
            topic=event.topic,
            partition=event.partition,
            offset=event.offset,
            timestamp=Timestamp(event.timestamp_ms),
            stage=self.stage,
            error=type(error).__qualname__,
            message=_words(error).encode()[:MESSAGE_BYTES].decode(errors="ignore"),
            traceback="" if expected else _frames(error).encode()[-TRACEBACK_BYTES:].decode(errors="ignore"),
            attempts=attempts,
            died_at=Timestamp(int(self._clock() * 1000)),
        )
        token = attach(trace)
        try:
            failed(get_current_span(), error)
            await self._park(letter)
            self._meters.buried(self.stage, error)
            _log.warning(
                "dead letter",
                stage=self.stage,
                topic=letter.topic,
                partition=letter.partition,
                offset=letter.offset,
                error=letter.error,
                attempts=attempts,
            )
            await self._tell(letter, received)
        finally:
            detach(token)

    async def _park(self, letter: DeadLetter) -> None:
        """Send a dead letter, with as much of its record as the topic takes."""
        *longer, shortest = abridged(letter)
        for version in longer:
            try:
                await self._patiently(partial(self._outbox.send, to_record(version, self._dead_letters)))
            except Exception as error:
                if self._stops(error):
                    raise
                _log.warning("the dead letter has no room for its record", stage=self.stage, error=repr(error))
            else:
                return
        await self._patiently(partial(self._outbox.send, to_record(shortest, self._dead_letters)))

    async def _tell(self, letter: DeadLetter, received: Received[T] | None) -> None:
        if self._on_dead_letter is None:
            return
        try:
            await self._patiently(partial(self._on_dead_letter, letter, received))
        except Exception as error:
            if self._stops(error):
                raise
            # The record lies in the dead letters; that nobody is told of it must not hold up all others.
            _log.exception("no receipt for a dead letter", stage=self.stage, topic=letter.topic, offset=letter.offset)


def _words(error: Exception) -> str:
    """Give what an error says, in words that UTF-8 can write; none where it cannot even say it."""
    try:
        return printable(str(error))
    except Exception:  # noqa: BLE001 - no error may stop the stage
        return ""


def _frames(error: Exception) -> str:
    """Name the places that the error came through, innermost last, without source lines; also those in a child."""
    here = (f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__))
    return printable("\n".join((*here, *map(str, getattr(error, "__notes__", ())))))
