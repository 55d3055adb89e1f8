"""Fakes and builders for the tests of delivery."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from freki.operators.errors import OperatorError
from freki.schemas import Timestamp
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue, OnDeadLetter
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.delivery import Delivery, Handle
from freki.streams.deliver.intake import Decode, Intake, Prepare, RecordFilter
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.retry import Backoff, Retry
from freki.streams.messages import Headers

T = TypeVar("T")

DEAD_LETTERS = "dead-letters"


class Bad(OperatorError):
    """A record is to blame."""


class Down(Unavailable):
    """A service is to blame."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class WrongSetting(Misconfigured):
    """A setting is to blame."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = 0

    @property
    def offset(self) -> int:
        return 0

    @property
    def timestamp_ms(self) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A record on a topic."""

    topic: str = "documents"
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = 1_000
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: Headers = ()


@dataclass
class FakeProducer:
    """Keeps what it is sent; the next `failures` are raised first, one a record."""

    sent: list[Sent] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    unconfirmed: list[Exception] = field(default_factory=list)
    """Raised by the delivery instead of by `send`."""

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> asyncio.Future[None]:
        record = Sent(topic=topic, key=key, value=value, headers=headers, partition=partition or 0)
        await self.check(record)
        if self.failures:
            raise self.failures.pop(0)
        delivery: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.unconfirmed:
            delivery.set_exception(self.unconfirmed.pop(0))
        else:
            self.sent.append(record)
            delivery.set_result(None)
        return delivery

    async def check(self, record: Sent) -> None:
        """Raise what a broker says to a record; this one takes all."""

    def to(self, topic: str) -> list[Sent]:
        return [record for record in self.sent if record.topic == topic]


@dataclass
class Waits:
    """Sleeps without taking time."""

    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Spans:
    """A tracer whose finished spans can be looked at."""

    def __init__(self) -> None:
        """Keep them in memory."""
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("test")

    @property
    def finished(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()


class Bench:
    """A delivery with everything around it faked."""

    def __init__(self, *, attempts: int = 4) -> None:
        self.producer = FakeProducer()
        self.waits = Waits()
        self.spans = Spans()
        self.outbox = Outbox(self.producer, self.spans.tracer)
        self.backoff = Backoff(attempts=attempts)

    def use(self, producer: FakeProducer) -> None:
        """Send with another producer."""
        self.producer = producer
        self.outbox = Outbox(producer, self.spans.tracer)

    def delivery(
        self,
        *,
        decode: Decode[T],
        handle: Handle[T],
        on_dead_letter: OnDeadLetter[T] | None = None,
        prepare: Prepare | None = None,
        accepts: RecordFilter | None = None,
    ) -> Delivery[T]:
        return Delivery(
            "stage",
            intake=Intake(decode, prepare=prepare, accepts=accepts),
            handle=handle,
            dead_letters=DeadLetterQueue(self.outbox, DEAD_LETTERS, on_dead_letter=on_dead_letter, clock=lambda: 42.0),
            tracer=self.spans.tracer,
            retry=Retry("stage", backoff=self.backoff, sleep=self.waits),
        )

    @property
    def dead(self) -> list[Sent]:
        return self.producer.to(DEAD_LETTERS)


def dead_letter(**changes: Any) -> DeadLetter:
    """Make a dead letter of the stage `chunk`."""
    letter = DeadLetter(
        key=b"k",
        value=b"v",
        headers=(),
        topic="documents",
        partition=0,
        offset=1,
        timestamp=Timestamp(0),
        stage="chunk",
        error="Rejected",
        message="",
        traceback="",
        attempts=1,
        died_at=Timestamp(0),
    )
    return replace(letter, **changes)
