"""Exchange with a running Freki over any Kafka library: changes and their receipts, queries and their answers."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import WeakSet, finalize

from freki.client.messages import TOKEN_HEADER, VERSION_HEADER, Headers, Outgoing, Sender, Sink, Stored
from freki.client.tasks import to_its_end
from freki.schemas import (
    ClaimCheck,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    DocumentQuery,
    DocumentReport,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    QueryId,
    RootId,
    TenantId,
)
from freki.schemas.avro.codec import UndecodableError
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.names import ambiguous_tenant_reason, record_key, root_id
from freki.schemas.query_options import MAX_DEADLINE_MS

D = TypeVar("D")
Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")

NOT_TAKEN = "the broker has not taken the query in time: is Kafka up?"
_AHEAD = 100
"""Most records of a subscription that are read before they are taken."""
_log = logging.getLogger(__name__)
Change = tuple[TenantId, DocumentId, int, Operation]
"""Identity of a change: tenant, document, version and operation, as a deletion may have the version that it deletes."""


class AlreadyAsked(ValueError):
    """A query of this id still waits for its answer: nothing would tell the two answers apart."""


class ClientClosed(Unavailable):
    """The client is not open, or was closed before the call ended; what the call sent may have arrived."""


class NotSent(TimeoutError):
    """The time was over before the broker had taken the query."""


def patience_of(deadline_ms: int) -> float:
    """Return how many seconds to wait for the answer to a query: a second beyond its deadline.

    An answer that left in time may still be on its way. Callers wait so much longer where no worker answers, so it is
    no more than the way takes on a busy machine.
    """
    # Of one out of bounds the worker says what is wrong with it; of hundreds of digits there is no float.
    return min(max(0, deadline_ms), MAX_DEADLINE_MS) / 1000 + 1.0


def check_named(change: DocumentChange) -> None:
    """Raise Rejected for a change of no document, as of a variable that was not set.

    Workers refuse it too, with a dead letter, and one more for the tombstone of a deletion. `Publisher` does not: what
    others published under such an id is erased by a deletion of it.
    """
    if not change.document_id.strip():
        raise Rejected("document_id: it is empty; name the document")


class ClaimWriter(Protocol):
    """Stores content that is too large for a record."""

    async def put(self, content: bytes, *, document: RootId, version: int) -> ClaimCheck:
        """Store content of a version where workers may read it, and return what refers to it."""


class Publisher:
    """Publisher of document changes, with a claim check for large content and a tombstone after each deletion.

    Without `claims`, large content is refused. Pass `tombstones=False` if older deletions may be sent again after newer
    changes: a tombstone outdates every change recorded before it.
    """

    def __init__(
        self,
        *,
        outbox: Sender,
        encode: Callable[[DocumentChange], bytes],
        topic: str,
        claims: ClaimWriter | None,
        inline_bytes: int,
        tombstones: bool = True,
    ) -> None:
        self._outbox = outbox
        self._encode = encode
        self._topic = topic
        self._claims = claims
        self._inline_bytes = inline_bytes
        self._tombstones = tombstones

    async def publish(self, *changes: DocumentChange) -> None:
        """Return when the broker has stored the changes; those of one document keep their order.

        Raises Rejected, before anything is sent, for a tenant with a '/', and for content that is too large.
        """
        for change in changes:
            if (reason := ambiguous_tenant_reason(change.tenant)) is not None:
                raise Rejected(f"tenant: {reason}")
        records = [record for change in changes for record in self._records(await self._with_claim(change))]
        await self._outbox.send(*records)

    def _records(self, change: DocumentChange) -> Iterator[Outgoing]:
        key = record_key(change.tenant, change.document_id)
        yield Outgoing(topic=self._topic, key=key, value=self._encode(change))
        if change.operation is Operation.DELETE and self._tombstones:
            # Compaction removes earlier records of a key only if its last value is null.
            version = ((VERSION_HEADER, str(change.version).encode()),)
            yield Outgoing(topic=self._topic, key=key, value=None, headers=version)

    async def _with_claim(self, change: DocumentChange) -> DocumentChange:
        if change.content is None:
            return change
        content = change.content if isinstance(change.content, bytes) else change.content.encode()
        if len(content) <= self._inline_bytes:
            return change
        if self._claims is None:
            raise Rejected(
                f"{change.document_id} has {len(content)} bytes of content, and at most {self._inline_bytes} travel in "
                "a record: store it where workers may read, and give its claim (uri, size, sha256) instead"
            )
        document = root_id(change.tenant, change.document_id)
        claim = await self._claims.put(content, document=document, version=change.version)
        return replace(change, content=None, claim=claim)


class Follower:
    """Base of clients that read a topic in the background while their context is open."""

    _reading: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        await to_its_end(self._end())

    async def _end(self) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    @property
    def is_reading(self) -> bool:
        """Whether the topic is still being read."""
        return not self._reading.done()

    async def ended(self) -> None:
        """Return when nothing more will be read; raises why."""
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        raise NotImplementedError

    async def first(self, wanted: asyncio.Future[T], *, patience_s: float | None) -> T:
        """Wait for a result of the reading task, at most `patience_s` seconds; None: as long as it takes.

        Raises the error of the reading task, ClientClosed where this was closed meanwhile, or TimeoutError.
        """
        pending: set[asyncio.Future[Any]] = {wanted, self._reading}
        await asyncio.wait(pending, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if wanted.done():
            return wanted.result()
        if self._reading.cancelled():
            # Its own error would pass for a cancellation of whoever waits here.
            raise ClientClosed("the client was closed before the call ended; what it sent may have arrived")
        if self._reading.done():
            self._reading.result()
        raise TimeoutError(f"nothing came within {patience_s or 0:g} s: do workers run?")

    async def first_of(self, arrived: asyncio.Queue[T], *, patience_s: float | None) -> T:
        """Take the first of a queue that the reading task fills. Raises as `first` does."""
        waiting = asyncio.ensure_future(arrived.get())
        try:
            return await self.first(waiting, patience_s=patience_s)
        finally:
            waiting.cancel()


async def decoded(records: AsyncIterable[Stored], decode: Callable[[bytes], D]) -> AsyncIterator[D]:
    """Yield what records hold, except those without a value, and those that cannot be decoded, which are logged.

    Whoever may write to the topic could otherwise end all who read it, with one record.
    """
    skipped = 0
    async for stored in records:
        if stored.value is None:
            continue
        try:
            found = decode(stored.value)
        except UndecodableError as error:
            skipped += 1
            # At 1, 2, 4, 8 …: a program that writes many would fill the log.
            if skipped.bit_count() == 1:
                _log.warning("record skipped, %d since the start of reading: %s", skipped, error)
            continue
        yield found


class Subscription(Follower, Generic[T]):
    """Reader of what comes on a topic, one by one, that ends with the client of which it is a part."""

    def __init__(self, found: AsyncIterable[T]) -> None:
        self._found = found
        # Whoever takes slowly holds up the reading, and so fills no memory.
        self._arrived: asyncio.Queue[T] = asyncio.Queue(_AHEAD)

    async def next(self) -> T:
        """Return the next one. Raises the error of the reading task, and ClientClosed where this was closed."""
        if not self._arrived.empty():
            return self._arrived.get_nowait()
        return await self.first_of(self._arrived, patience_s=None)

    async def _read(self) -> None:
        async for each in self._found:
            await self._arrived.put(each)


class Receipts(Follower):
    """Reader of the receipts of expected changes, from the moment its context is entered.

    Expect a change before sending it: receipts of other changes are dropped.
    """

    def __init__(self, records: AsyncIterable[Stored], decode: Callable[[bytes], IndexOutcome]) -> None:
        self._records = records
        self._decode = decode
        self._expected: Counter[Change] = Counter()
        self._arrived: asyncio.Queue[IndexOutcome] = asyncio.Queue()

    def expect(self, change: DocumentChange) -> None:
        """Add a change whose receipt `next` shall return; a version that is published twice has two."""
        self._expected[change.tenant, change.document_id, change.version, change.operation] += 1

    async def next(self, *, patience_s: float) -> IndexOutcome:
        """Return the next receipt of an expected change, each once. Raises TimeoutError after `patience_s` seconds."""
        return await self.first_of(self._arrived, patience_s=patience_s)

    async def _read(self) -> None:
        async for outcome in decoded(self._records, self._decode):
            change = next((each for each in _changes(outcome) if each in self._expected), None)
            if change is not None:
                self._arrived.put_nowait(outcome)
                self._expected[change] -= 1
                if not self._expected[change]:
                    del self._expected[change]


class ReceiptBoard(Follower):
    """Reader of receipts for many producers at once: each waits for that of its own change."""

    def __init__(self, records: AsyncIterable[Stored], decode: Callable[[bytes], IndexOutcome]) -> None:
        self._records = records
        self._decode = decode
        self._waiting: defaultdict[Change, WeakSet[asyncio.Future[IndexOutcome]]] = defaultdict(WeakSet)

    def expect(self, change: DocumentChange) -> "asyncio.Future[IndexOutcome]":
        """Return what becomes the receipt of a change; call before it is sent. Nobody waits once it is dropped."""
        key = (change.tenant, change.document_id, change.version, change.operation)
        receipt: asyncio.Future[IndexOutcome] = asyncio.get_running_loop().create_future()
        # Callbacks run in reverse order: the set lets go of it first.
        finalize(receipt, self._forget, key)
        self._waiting[key].add(receipt)
        return receipt

    def _forget(self, key: Change) -> None:
        if not self._waiting.get(key):
            self._waiting.pop(key, None)

    @contextmanager
    def expected(self, change: DocumentChange) -> Iterator[Callable[[float], Awaitable[IndexOutcome]]]:
        """Give what waits for the receipt of a change, at most so many seconds; enter before the change is sent.

        The wait raises TimeoutError.
        """
        receipt = self.expect(change)

        async def wait(patience_s: float) -> IndexOutcome:
            return await self.first(receipt, patience_s=patience_s)

        yield wait

    async def _read(self) -> None:
        async for outcome in decoded(self._records, self._decode):
            receipts = (
                [receipt for receipt in self._waiting.get(change, ()) if not receipt.done()]
                for change in _changes(outcome)
            )
            for receipt in next(filter(None, receipts), ()):
                receipt.set_result(outcome)


def _changes(outcome: IndexOutcome) -> Iterator[Change]:
    """Yield the changes that a receipt may be of, the likelier one first: only its status tells a deletion."""
    may_be = {
        OutcomeStatus.INDEXED: (Operation.UPSERT,),
        OutcomeStatus.UNCHANGED: (Operation.UPSERT,),
        OutcomeStatus.DELETED: (Operation.DELETE,),
    }
    for operation in may_be.get(outcome.status, (Operation.UPSERT, Operation.DELETE)):
        yield outcome.tenant, outcome.document_id, outcome.version, operation


class RequestReplyClient(Follower, Generic[Q, A]):
    """Base of clients that send queries and wait for the answer under the same key."""

    def __init__(
        self,
        *,
        queries: Sink[Q],
        answers: Sequence[AsyncIterable[Stored]],
        decode: Callable[[bytes], A],
        token: str | Callable[[], str] | None = None,
    ) -> None:
        """Create a sender.

        answers: records of the topics of answers. token: of who asks, or what gives a fresh one for each query;
        None: Freki wants none.
        """
        self._queries = queries
        self._answers = answers
        self._decode = decode
        self._token = token
        self._waiting: dict[bytes, asyncio.Future[A]] = {}

    def _proof(self) -> str | None:
        return self._token() if callable(self._token) else self._token

    def _record(self, query: Q, *, key: bytes, token: str | None) -> Outgoing:
        headers: Headers = () if token is None else ((TOKEN_HEADER, token.encode()),)
        return self._queries.record(query, key=key, headers=headers)

    async def _answered(self, key: bytes, query: Outgoing, *, patience_s: float) -> A:
        """Send a query with this key and return its answer.

        Raises TimeoutError after `patience_s` seconds, NotSent if the broker has not taken it by then, AlreadyAsked if
        a query of that key is still waiting, UndecodableError for an answer of a contract that is not known here.
        """
        if key in self._waiting:
            raise AlreadyAsked(f"query {key.decode()} still waits for its answer; give each query an id of its own")
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        is_sent = False
        try:
            async with asyncio.timeout(patience_s):
                await self._queries.send(query)
                is_sent = True
                return await self.first(answer, patience_s=patience_s)
        except TimeoutError as error:
            if is_sent:
                raise TimeoutError(f"no answer within {patience_s:g} s: does a worker run that answers?") from error
            raise NotSent(NOT_TAKEN) from error
        finally:
            del self._waiting[key]

    async def _read(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for answers in self._answers:
                    group.create_task(self._take(answers))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures

    async def _take(self, answers: AsyncIterable[Stored]) -> None:
        async for stored in answers:
            answer = self._waiting.get(stored.key or b"")
            if answer is None or answer.done() or stored.value is None:
                continue
            try:
                answer.set_result(self._decode(stored.value))
            except UndecodableError as error:
                # Other answers are read on.
                answer.set_exception(error)


class Asker(RequestReplyClient[ContextQuery, ContextResult]):
    """Sender of queries that waits for their results."""

    def __init__(
        self,
        *,
        queries: Sink[ContextQuery],
        answers: Sequence[AsyncIterable[Stored]],
        decode: Callable[[bytes], ContextResult],
        token: str | Callable[[], str] | None = None,
        id_of_token: Callable[[str], str | None] | None = None,
    ) -> None:
        """Create a sender; id_of_token: where a token serves one query only, what gives the id of that query."""
        super().__init__(queries=queries, answers=answers, decode=decode, token=token)
        self._id_of_token = id_of_token

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:
        """Send a query and return its result. Raises TimeoutError after `patience_s` seconds.

        token: of who asks, in place of the client's.
        """
        token = token or self._proof()
        if self._id_of_token is not None and token is not None:
            query = replace(query, query_id=QueryId(self._id_of_token(token) or query.query_id))
        return await self._sent(query, patience_s=patience_s, token=token)

    async def _sent(self, query: ContextQuery, *, patience_s: float, token: str | None) -> ContextResult:
        key = query.query_id.encode()
        return await self._answered(key, self._record(query, key=key, token=token), patience_s=patience_s)


class DocumentAsker(RequestReplyClient[DocumentQuery, DocumentReport]):
    """Sender of document queries that waits for their reports."""

    async def ask(self, query: DocumentQuery, *, patience_s: float, token: str | None = None) -> DocumentReport:
        """Send a query and return its report. Raises TimeoutError after `patience_s` seconds.

        token: of who asks, in place of the client's.
        """
        key = query.query_id.encode()
        return await self._answered(
            key, self._record(query, key=key, token=token or self._proof()), patience_s=patience_s
        )
