"""What a stage reads: messages of an assignment, and the account of what is done of them."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Self

from freki.streams.messages import Headers
from tests.simulation.broker import Record


@dataclass(frozen=True, slots=True)
class Message:
    """A record as Faust hands it on."""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None
    headers: Headers
    epoch: int
    """The assignment that it was read in."""


@dataclass(frozen=True, slots=True)
class Event:
    """A message on its way through a stage."""

    message: Message


class Stream:
    """What a stage needs of Faust's stream of one topic."""

    def __init__(self, acknowledge: Callable[["Event"], None]) -> None:
        self._acknowledge = acknowledge
        self.waiting: deque[Event] = deque()
        self.arrived = asyncio.Event()

    def noack(self) -> Self:
        """Give itself: nothing is acknowledged here but by `ack`."""
        return self

    async def events(self) -> AsyncIterator[Event]:
        """Give what has arrived, one by one."""
        while True:
            while not self.waiting:
                self.arrived.clear()
                await self.arrived.wait()
            yield self.waiting.popleft()

    async def ack(self, event: Event) -> None:
        """Note that a record is done."""
        self._acknowledge(event)


@dataclass(slots=True)
class Account:
    """What of a partition was handed out, and what of that is done."""

    position: int
    handed_out: deque[int] = field(default_factory=deque)
    done: set[int] = field(default_factory=set)
    finished: int = 0
    """The offset below which all is done."""

    def settle(self) -> None:
        """Move `finished` over what is done without a gap."""
        while self.handed_out and self.handed_out[0] in self.done:
            offset = self.handed_out.popleft()
            self.done.discard(offset)
            self.finished = offset + 1
        if not self.handed_out:
            self.finished = max(self.finished, self.position)


def message(record: Record, epoch: int) -> Message:
    """Hand a record on."""
    return Message(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms / 1000,
        record.key,
        record.value,
        record.headers,
        epoch,
    )
