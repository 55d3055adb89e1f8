"""The client for asyncio."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace
from random import random
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, get_type_hints

from freki.client.broker import Broker
from freki.client.exchange import (
    Asker,
    ClientClosed,
    Follower,
    Publisher,
    ReceiptBoard,
    Subscription,
    check_named,
    decoded,
)
from freki.client.fields import DocumentFields, QueryFields
from freki.client.kafka import Producer, Reader
from freki.client.messages import Sink
from freki.client.tasks import cancel_and_wait, to_its_end
from freki.client.versions import Versions
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    QueryId,
    TenantId,
    Timestamp,
)
from freki.schemas.avro.codec import Codec, UnencodableError
from freki.schemas.avro.hints import branches_of, item_of
from freki.schemas.backoff import backoff
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable

T = TypeVar("T")
F = TypeVar("F", bound=Follower)
S = TypeVar("S", bound=IndexOutcome | ContextResult)

ALREADY_OPEN = "the client is open already: leave its `with` block before another one, or create a client for each"
ATTEMPTS = 4
"""Attempts of a call while the broker is unavailable."""
_FIRST_S, _LONGEST_S = 0.2, 5.0
_TOPICS: dict[type[Any], str] = {IndexOutcome: "outcomes", ContextResult: "contexts"}
_SEVERAL = frozenset(
    name
    for kind in (DocumentChange, ContextQuery)
    for name, hint in get_type_hints(kind).items()
    if any(item_of(branch) for branch in branches_of(hint))
)
"""Fields that hold several values."""


@dataclass(frozen=True, slots=True)
class Published:
    """A change that the broker has stored, whose receipt is expected."""

    change: DocumentChange
    receipt: "asyncio.Future[IndexOutcome]" = field(repr=False)
    board: ReceiptBoard = field(repr=False)
    """Reads the receipts."""


class Client:
    """Publishes, waits, asks and follows, for one tenant; any number of calls at once.

    ```python
    async with Client(Broker(bootstrap="127.0.0.1:9092")) as client:
        published = await client.publish("notes/1", "Der Antrag ist schriftlich.", principals=["everyone"])
        await client.wait(published)
        result = await client.ask("Wie ist der Antrag zu stellen?")
    ```

    Calls raise Unavailable once the broker did not answer several attempts, Rejected for what can never succeed, and
    Misconfigured, naming what to correct; ValueError or TypeError for an argument of the call itself, as `timeout_s`.
    Those that have not ended when it is closed, and later ones, raise ClientClosed.
    """

    def __init__(
        self,
        broker: Broker | None = None,
        *,
        tenant: str = "default",
        token: str | Callable[[], str] | None = None,
        answers_on: str | None = None,
        first_wait_s: float = _FIRST_S,
    ) -> None:
        """Create a client.

        token: of who asks, or what gives a fresh one for each query, where the workers demand tokens. answers_on:
        topic of the answers besides the one of all, where the tenant has its own, or where queries name it in
        `reply_to`. first_wait_s: before the second attempt; it doubles with each.
        """
        self._broker = broker or Broker()
        self._tenant = TenantId(tenant)
        self._token = token
        self._answers_on = answers_on
        self._first_wait_s = first_wait_s
        self._opened = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where it is open."""
        self._producer = Producer(self._broker)
        self._versions = Versions()
        self._board: _Kept[ReceiptBoard]
        self._asker: _Kept[Asker]
        self._subscriptions: set[AsyncExitStack] = set()
        """What closes each that is followed."""
        self._publisher = Publisher(
            outbox=self._producer,
            encode=Codec(DocumentChange).encode,
            topic=self._broker.topic("documents"),
            claims=None,
            inline_bytes=self._broker.inline_bytes,
        )

    async def __aenter__(self) -> Self:
        """Connect, with a few attempts. Raises Misconfigured if the client is open."""
        if self._loop is not None:
            # Else the connection of before would never be closed.
            raise Misconfigured(ALREADY_OPEN)
        await self._attempted(lambda: self._opened.enter_async_context(self._producer))
        self._board, self._asker = _Kept(self._open_board), _Kept(self._open_asker)
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect, also if cancelled meanwhile, however often: scopes of anyio cancel each wait again."""
        self._loop = None
        await to_its_end(self._close())

    async def _close(self) -> None:
        async with self._opened, aclosing(self._asker), aclosing(self._board):
            # Why one ended before was raised to whoever follows it.
            await asyncio.gather(*(each.aclose() for each in self._subscriptions), return_exceptions=True)

    async def publish(
        self, document: str | DocumentChange, content: str | bytes | None = None, **fields: Unpack[DocumentFields]
    ) -> Published:
        """Store a document in the stream, and return once the broker has it.

        document: its id, with its content and further fields of DocumentChange, such as `principals`; or a change with
        all of them. Without a version it gets the time in milliseconds. The receipt is expected from now on: `wait`.
        """
        if isinstance(document, DocumentChange):
            return await self._publish(document)
        return await self._publish(self._change(document, Operation.UPSERT, {"content": content, **fields}))

    async def delete(self, document_id: str, *, version: int | None = None) -> Published:
        """Delete a document, and return once the broker has the deletion."""
        return await self._publish(self._change(document_id, Operation.DELETE, {"version": version or 0}))

    async def wait(self, published: Published, *, timeout_s: float = 60.0) -> IndexOutcome:
        """Return the receipt of a change; its status says what became of it.

        Raises TimeoutError where none came in time, and Unavailable where receipts are not read any more: publish again
        then, which changes nothing if the change is there.
        """
        if not isinstance(published, Published):
            raise TypeError(f"published: {published!r:.40} is none; give what `publish` or `delete` returned")
        _check_seconds(timeout_s, least=0)
        if not published.receipt.done():
            self._check_open()
        return await published.board.first(published.receipt, patience_s=timeout_s)

    async def ask(
        self,
        question: str | ContextQuery,
        *,
        timeout_s: float = 30.0,
        token: str | None = None,
        **fields: Unpack[QueryFields],
    ) -> ContextResult:
        """Return the answer; its status says whether something was left out.

        question: its text, with further fields of ContextQuery, such as `principals`, `top_k` or `filters`; or a query
        with all of them, whose id must be new. The deadline of a text begins when it is sent, that of a query at its
        `asked_at`. Raises TimeoutError where none came in time. A query may be asked several times if the broker
        does not answer.
        """
        _check_seconds(timeout_s, least=0.001)
        query = question if isinstance(question, ContextQuery) else self._query(question, fields)

        async def ask() -> ContextResult:
            asker = await self._asker.get()
            # Neither connecting nor earlier attempts take of the time for the answer.
            asked = query if query is question else replace(query, asked_at=_now())
            return await asker.ask(asked, patience_s=timeout_s, token=token)

        return await self._retried(ask)

    def subscribe(
        self, kind: type[S], *, start: Literal["earliest", "latest"] = "latest", every_tenant: bool = False
    ) -> AsyncGenerator[S, None]:
        """Yield receipts (IndexOutcome) or answers (ContextResult) of this tenant as they come, endlessly.

        Receipts of one document come in order; those of several lie in several partitions, which have none.

        start: the oldest that the topic has, or from now on. Records that this package cannot decode, such as those of
        a later contract, are skipped and logged. Raises Unavailable, and ClientClosed once the client is closed.
        """
        if kind not in _TOPICS:
            raise ValueError(f"kind: {kind!r} is no record to follow; give IndexOutcome or ContextResult")
        if start not in ("earliest", "latest"):
            raise ValueError(f"start: {start!r} is neither 'earliest' nor 'latest'")
        return self._followed(kind, start=start, every_tenant=every_tenant)

    async def _followed(
        self, kind: type[S], *, start: Literal["earliest", "latest"], every_tenant: bool
    ) -> AsyncGenerator[S, None]:
        self._check_open()
        opened = AsyncExitStack()
        try:
            reader = await opened.enter_async_context(
                Reader(self._broker, self._broker.topic(_TOPICS[kind]), start=start)
            )
            found = await opened.enter_async_context(Subscription(decoded(reader, Codec(kind).decode)))
            self._subscriptions.add(opened)
            while True:
                self._check_open()
                each = await found.next()
                if every_tenant or each.tenant == self._tenant:
                    yield each
        finally:
            self._subscriptions.discard(opened)
            # Why reading ended is being raised, unless nobody waits for more.
            with suppress(InfraError):
                await opened.aclose()

    async def _publish(self, change: DocumentChange) -> Published:
        check_named(change)
        now = _now()
        change = replace(change, version=self._versions.of(change, now=now), occurred_at=change.occurred_at or now)

        async def publish() -> Published:
            board = await self._board.get()
            receipt = board.expect(change)
            await self._publisher.publish(change)
            return Published(change, receipt, board)

        return await self._retried(publish)

    def _change(self, document_id: str, operation: Operation, fields: Mapping[str, object]) -> DocumentChange:
        content = fields.get("content")
        if not isinstance(content, str | bytes | None):
            raise Rejected(
                f"content: a {type(content).__name__} is neither text nor bytes; give the text, or a file's bytes"
            )
        given: dict[str, Any] = {"version": 0, "occurred_at": Timestamp(0), **_tuples(fields)}
        return DocumentChange(tenant=self._tenant, document_id=DocumentId(document_id), operation=operation, **given)

    def _query(self, text: str, fields: Mapping[str, object]) -> ContextQuery:
        given = _tuples(fields)
        return ContextQuery(
            query_id=QueryId(str(uuid.uuid4())), tenant=self._tenant, text=text, asked_at=Timestamp(0), **given
        )

    def _check_open(self) -> None:
        """Raise ClientClosed unless the client is open, and Misconfigured in another event loop than its own."""
        if self._loop is None:
            raise ClientClosed("the client is not open: use it in `async with`")
        if self._loop is not asyncio.get_running_loop():
            # What it waits for would never come.
            raise Misconfigured(
                "the client was opened in another event loop: open one in each, or share a BlockingClient"
            )

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        async def checked() -> T:
            self._check_open()
            return await call()

        try:
            return await self._attempted(checked)
        except UnencodableError as error:
            raise Rejected(str(error)) from error
        except UnicodeEncodeError as error:
            raise Rejected(
                "a text has half of a character (a lone surrogate), as text cut within an emoji has"
            ) from error

    async def _attempted(self, call: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, ATTEMPTS):
            try:
                return await call()
            except ClientClosed:
                raise
            except Unavailable:
                await asyncio.sleep(backoff(attempt, first=self._first_wait_s, longest=_LONGEST_S, jitter=random()))  # noqa: S311 - spreads load
        return await call()

    async def _open_board(self, opened: AsyncExitStack) -> ReceiptBoard:
        self._check_open()
        reader = await opened.enter_async_context(Reader(self._broker, self._broker.topic("outcomes")))
        return await opened.enter_async_context(ReceiptBoard(reader, Codec(IndexOutcome).decode))

    async def _open_asker(self, opened: AsyncExitStack) -> Asker:
        self._check_open()
        # Refusals come where all answers come: a query whose token is refused has no tenant.
        names = dict.fromkeys([self._broker.topic("contexts"), *([self._answers_on] if self._answers_on else [])])
        readers = [await opened.enter_async_context(Reader(self._broker, name)) for name in names]
        queries = Sink(self._producer, self._broker.topic("queries"), Codec(ContextQuery).encode)
        return await opened.enter_async_context(
            Asker(queries=queries, answers=readers, decode=Codec(ContextResult).decode, token=self._token)
        )


class _Kept(Generic[F]):
    """A follower of a topic, opened when it is first needed, and again once it has ended."""

    def __init__(self, open_follower: Callable[[AsyncExitStack], Awaitable[F]]) -> None:
        self._open = open_follower
        self._opening: asyncio.Task[F] | None = None
        self._closing = AsyncExitStack()
        self._current: F | None = None

    async def get(self) -> F:
        """Return it. Where it is being opened that goes on for later callers if this one is cancelled."""
        if self._current is not None and self._current.is_reading:
            return self._current
        if self._opening is None:
            self._opening = asyncio.create_task(self._reopened())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        # Not cancelled with this task: a caller in a hurry would never be connected.
        await asyncio.wait({opening})
        if opening.cancelled():
            raise ClientClosed("the client was closed before the call ended")
        return opening.result()

    async def aclose(self) -> None:
        if self._opening is not None:
            await cancel_and_wait([self._opening])
        await self._close()

    async def _reopened(self) -> F:
        await to_its_end(self._close())
        opened = AsyncExitStack()
        try:
            self._current = await self._open(opened)
        except BaseException:
            await to_its_end(opened.aclose())
            raise
        self._closing = opened
        return self._current

    def _opened(self, opening: "asyncio.Task[F]") -> None:
        self._opening = None
        # Whoever still waits for it is told of the failure.
        _ = opening.cancelled() or opening.exception()

    async def _close(self) -> None:
        closing, self._closing, self._current = self._closing, AsyncExitStack(), None
        # Why it ended was raised to those who waited.
        with suppress(InfraError):
            await closing.aclose()


def _check_seconds(timeout_s: object, *, least: float) -> None:
    """Raise ValueError for a time that is none, or too short for any answer."""
    # Also of nan, which compares with nothing.
    if not isinstance(timeout_s, int | float) or not timeout_s >= least:
        raise ValueError(f"timeout_s: {timeout_s!r:.40} is no time to wait; give seconds, {least:g} or above")


def _tuples(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return fields with tuples in place of lists, which records have. Raises Rejected for one text in their place."""
    for name in _SEVERAL & fields.keys():
        if isinstance(fields[name], str):
            # Each of its letters would be a name, and nothing would say so.
            raise Rejected(f'{name}: it holds several texts: give a list, such as ["…"]')
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _now() -> Timestamp:
    return Timestamp(time.time_ns() // 1_000_000)
