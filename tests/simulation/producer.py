"""A client that sends records: in order per partition, again where no answer comes, until its patience ends."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from freki.schemas.errors import Rejected, Unavailable
from freki.streams.messages import Headers
from tests.simulation.broker import Broker, Place
from tests.simulation.network import Network
from tests.simulation.scenario import SENDS

RETRY_S = 0.2
DELIVERY_S = 30.0

_Waiting = tuple[bytes | None, bytes | None, Headers, int, int | None, float, "asyncio.Future[int]"]


class Producer:
    """Satisfies `Producer` of `streams.ports`; each delivery gives the record's offset.

    idempotent: the broker knows records that it gets again; else a retry may store one twice, and a request that was
    given up may store it late.
    """

    confirms_early = False
    """Say that a record is stored before it is."""

    def __init__(  # noqa: PLR0913 - what a client is made of
        self,
        number: int,
        *,
        broker: Broker,
        network: Network,
        random: Random,
        idempotent: bool,
        skew_ms: int | None,
        request_records: int = 1_000,
        on_call: Callable[[str, Sequence[str]], bool] = lambda *_: False,
    ) -> None:
        self._number = number
        self._broker = broker
        self._network = network
        self._random = random
        self._idempotent = idempotent
        self._skew_ms = skew_ms
        self._request_records = request_records
        self._on_call = on_call
        self._sequences = count()
        self._queues: dict[Place, deque[_Waiting]] = {}
        self._sending: dict[Place, asyncio.Task[None]] = {}

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
        transaction: int | None = None,
    ) -> asyncio.Future[int]:
        """Queue a record."""
        if key is None and value is None:
            raise Rejected("a record needs a key or a value")
        loop = self._network.loop
        delivery: asyncio.Future[int] = loop.create_future()
        place = self._broker.place(topic, key) if partition is None else (topic, partition)
        queue = self._queues.setdefault(place, deque())
        queue.append((key, value, headers, next(self._sequences), transaction, loop.time(), delivery))
        if self.confirms_early:
            delivery.set_result(-1)
        if place not in self._sending:
            self._sending[place] = asyncio.create_task(self._drain(place, queue))
        return delivery

    async def _drain(self, place: Place, queue: deque[_Waiting]) -> None:
        """Send what waits for a partition, one request at a time."""
        while queue:
            batch = [queue.popleft() for _ in range(min(len(queue), self._request_records))]
            try:
                offsets = await self._stored(place, batch)
            except (Unavailable, ValueError) as error:
                for *_, delivery in batch:
                    if not delivery.done():
                        delivery.set_exception(Unavailable(f"send to {place[0]}: {error}"))
                continue
            for (*_, delivery), offset in zip(batch, offsets, strict=True):
                if not delivery.done():
                    delivery.set_result(offset)
        del self._sending[place]

    async def _stored(self, place: Place, batch: list[_Waiting]) -> list[int]:
        # From when it was queued: what waits behind a record that is given up goes with it, and does not overtake it.
        until_s = batch[0][5] + DELIVERY_S
        while True:
            if self._network.loop.time() > until_s:
                raise Unavailable("it was not stored in time")
            if self._on_call(f"{SENDS}:{place[0]}", [(key or b"").decode(errors="replace") for key, *_ in batch]):
                await asyncio.sleep(0)
            # Records that are numbered are stored in their place, or not at all.
            sent = self._network.request("broker", lambda: self._append(place, batch), late=not self._idempotent)
            try:
                return await sent
            except Unavailable:
                await asyncio.sleep(RETRY_S * (0.5 + self._random.random()))

    def _append(self, place: Place, batch: list[_Waiting]) -> list[int]:
        now_ms = None if self._skew_ms is None else self._skew_ms + self._broker.now_ms
        return [
            self._broker.append(
                place,
                key,
                value,
                headers,
                timestamp_ms=now_ms,
                transaction=transaction,
                sequence=(self._number, sequence) if self._idempotent else None,
            )
            for key, value, headers, sequence, transaction, *_ in batch
        ]
