"""Producers and askers: they send what the scenario says, and keep what they were told."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from freki.operators.identify import record_key
from freki.schemas import ContextQuery, DocumentChange, DocumentId, Operation, QueryId, TenantId, Timestamp
from freki.schemas.errors import Unavailable
from freki.streams.messages import REINDEX_HEADER, VERSION_HEADER, Headers
from tests.simulation.broker import Broker
from tests.simulation.codecs import CODECS
from tests.simulation.network import Network
from tests.simulation.producer import Producer
from tests.simulation.scenario import Ask, Bare, Delete, Junk, Put, Transaction, paragraph
from tests.simulation.scenario import Operation as Scripted

SEND_AGAIN_S = 1.0
DEADLINE_MS = 60_000


@dataclass(slots=True)
class Asked:
    """A question and when it was sent."""

    query: ContextQuery
    order: int
    """How much was on all topics when it was sent."""
    stored: bool = False


class Clients:
    """All producers and askers, which never fail."""

    def __init__(
        self,
        broker: Broker,
        network: Network,
        random: Random,
        *,
        now: Callable[[], Timestamp],
        note: Callable[..., None],
        skew_ms: int | None,
    ) -> None:
        self._broker = broker
        self._network = network
        self._random = random
        self._now = now
        self._note = note
        self._skew_ms = skew_ms
        self.asked: dict[str, Asked] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Connect."""
        self._source = self._producer(1, self._skew_ms)
        self._asker = self._producer(2, None)

    def _producer(self, number: int, skew_ms: int | None) -> Producer:
        return Producer(
            number,
            broker=self._broker,
            network=self._network,
            random=self._random,
            idempotent=True,
            skew_ms=skew_ms,
        )

    def do(self, operation: Scripted) -> None:
        """Begin an operation; those of one document are sent in the order in which they begin."""
        self._note("do", operation)
        match operation:
            case Ask():
                self._begin(self._ask(operation))
            case Transaction():
                self._begin(self._transact(operation))
            case _:
                self._begin(self._send(self._records(operation)))

    def repeat_newest(self) -> None:
        """Send the newest change of each document again, as a producer does to bring back what the store has lost."""
        newest: dict[bytes, tuple[int, tuple[bytes | None, bytes | None, Headers]]] = {}
        for record in self._broker.everything("documents"):
            if record.key is None or record.value is None or b"/junk" in record.key or b"/" not in record.key:
                continue
            version = CODECS[DocumentChange].decode(record.value).version
            if version >= newest.get(record.key, (0, None))[0]:
                newest[record.key] = version, (record.key, record.value, record.headers)
        self._begin(self._send_until_stored([record for _, record in newest.values()]))

    @property
    def is_done(self) -> bool:
        """Is everything sent, and every question answered?"""
        if not all(task.done() for task in self._tasks):
            return False
        answered = {record.key for log in self._broker.topics["contexts"] for record in log.records}
        return all(query_id.encode() in answered for query_id in self.asked)

    def _begin(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _send(self, records: Sequence[tuple[bytes | None, bytes | None, Headers]]) -> None:
        deliveries = [
            await self._source.send("documents", key=key, value=value, headers=headers)
            for key, value, headers in records
        ]
        await asyncio.gather(*deliveries)

    async def _send_until_stored(self, records: Sequence[tuple[bytes | None, bytes | None, Headers]]) -> None:
        while True:
            try:
                return await self._send(records)
            except Unavailable:
                await asyncio.sleep(SEND_AGAIN_S)

    async def _transact(self, operation: Transaction) -> None:
        """Send changes in a transaction, by a producer of its own."""
        producer = self._producer(1_000 + len(self._tasks), self._skew_ms)
        number = self._broker.begin()
        try:
            for change in operation.changes:
                for key, value, headers in self._records(change):
                    await (await producer.send("documents", key=key, value=value, headers=headers, transaction=number))
            await asyncio.sleep(operation.open_s)
        except Unavailable:
            self._broker.finish(number, commit=False)
        else:
            self._broker.finish(number, commit=operation.commits)

    def _records(self, operation: Put | Delete | Bare | Junk) -> list[tuple[bytes | None, bytes | None, Headers]]:
        match operation:
            case Put():
                key, value, _ = self._change(operation, Operation.UPSERT, content=operation.content)
                request = ((REINDEX_HEADER, str(operation.edition).encode()),) if operation.edition else ()
                return [(key, value, request)]
            case Delete():
                key, value, _ = self._change(operation, Operation.DELETE)
                version = ((VERSION_HEADER, str(operation.version).encode()),)
                return [(key, value, ()), *([(key, None, version)] if operation.tombstone else [])]
            case Bare():
                return [(_key(operation), None, ())]
            case Junk():
                return [_JUNK[operation.kind](operation.number)]

    def _change(
        self, operation: Put | Delete, what: Operation, content: str | None = None
    ) -> tuple[bytes, bytes, Headers]:
        change = DocumentChange(
            tenant=TenantId(operation.tenant),
            document_id=DocumentId(operation.document),
            operation=what,
            version=operation.version,
            occurred_at=self._now(),
            media_type="text/plain" if content is not None else None,
            language="en" if content is not None else None,
            principals=operation.principals if isinstance(operation, Put) else (),
            priority=operation.priority if isinstance(operation, Put) else 0,
            content=content,
        )
        return _key(operation), CODECS[DocumentChange].encode(change), ()

    async def _ask(self, operation: Ask) -> None:
        query_id = QueryId(f"q{operation.number}")
        query = ContextQuery(
            query_id=query_id,
            tenant=TenantId(operation.tenant),
            text=paragraph(operation.paragraph),
            asked_at=self._now(),
            principals=operation.principals,
            deadline_ms=DEADLINE_MS,
            language="en",
        )
        asked = self.asked[query_id] = Asked(query, self._broker.order)
        value = CODECS[ContextQuery].encode(query)
        while not asked.stored:
            try:
                await (await self._asker.send("queries", key=query_id.encode(), value=value))
                asked.stored = True
            except Unavailable:
                await asyncio.sleep(SEND_AGAIN_S)


def _key(operation: Put | Delete | Bare) -> bytes:
    return record_key(TenantId(operation.tenant), DocumentId(operation.document))


def _broken_change(number: int) -> tuple[bytes, bytes, Headers]:
    """Make a change whose version is not allowed."""
    change = DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId(f"junk-{number}"),
        operation=Operation.UPSERT,
        version=0,
        occurred_at=Timestamp(1),
        content="x",
    )
    return f"t/junk-{number}".encode(), CODECS[DocumentChange].encode(change), ()


_JUNK: dict[str, Callable[[int], tuple[bytes | None, bytes | None, Headers]]] = {
    "bytes": lambda number: (f"t/junk-{number}".encode(), b"\xff\xff junk", ()),
    "no key": lambda _: (None, b"junk", ()),
    "no slash": lambda number: (f"junk-{number}".encode(), b"junk", ()),
    "null": lambda number: (f"junk-{number}".encode(), None, ()),
    "version": _broken_change,
}
