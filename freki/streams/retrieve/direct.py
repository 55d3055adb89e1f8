"""Calls of the handlers of queries within their process, without a topic in between."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind, Tracer

from freki.schemas import ContextQuery, ContextResult, DocumentQuery, DocumentReport, QueryId, StageTime, Timestamp
from freki.streams.messages import TOKEN_HEADER, Headers, Received
from freki.streams.observe.tracing import describe
from freki.streams.retrieve.trace import answered, asked

Q = TypeVar("Q")
A = TypeVar("A")
Asked = TypeVar("Asked", ContextQuery, DocumentQuery)
Handle = Callable[[Sequence[Received[Q]]], Awaitable[None]]
NOWHERE = "direct"
"""In place of the name of a topic; partition and offset are -1."""


class Mailbox(Generic[A]):
    """Takes the answers that a handler sends, each for the caller that waits for it."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, asyncio.Future[A]] = {}

    def expect(self, key: bytes) -> asyncio.Future[A]:
        """Return what will be the answer to the query with a key."""
        answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        return answer

    def forget(self, key: bytes) -> None:
        """Drop the answer: nobody waits for it any more."""
        self._waiting.pop(key, None)

    def waits(self, key: bytes) -> bool:
        """Tell whether a caller waits for an answer that is not there yet."""
        return key in self._waiting and not self._waiting[key].done()

    def fail(self, key: bytes, error: Exception) -> None:
        """Give the caller an error in place of an answer."""
        if self.waits(key):
            self._waiting[key].set_exception(error)

    async def send(self, received: Received[Any], answer: A, *, to: str | None, private: bool = False) -> bool:  # noqa: ARG002
        """Give the answer to its caller, and to nobody else, whatever topic the query names."""
        if self.waits(received.key):
            self._waiting[received.key].set_result(answer)
        return True


class Mailboxes:
    """Where the answers of one process go instead of to topics, and who hears of steps."""

    def __init__(self) -> None:
        self.results: Mailbox[ContextResult] = Mailbox()
        self.reports: Mailbox[DocumentReport] = Mailbox()
        self.heard: dict[QueryId, Callable[[StageTime], None]] = {}

    def on_step(self, query_id: QueryId, step: StageTime) -> None:
        """Tell of a step, if somebody listens."""
        if (heard := self.heard.get(query_id)) is not None:
            heard(step)


class Batches(Generic[Q, A]):
    """Hands queries to a handler: at once while few batches are in flight, else those that wait together."""

    def __init__(self, handle: Handle[Q], mailbox: Mailbox[A], *, most: int, in_flight: int) -> None:
        """Create it; most: queries of a batch; in_flight: batches at a time."""
        self._handle = handle
        self._mailbox = mailbox
        self._most = most
        self._in_flight = in_flight
        self._queue: deque[Received[Q]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, received: Received[Q], *, patience_s: float) -> A:
        """Return the answer. Raises TimeoutError after `patience_s` seconds, and the error of the handler."""
        answer = self._mailbox.expect(received.key)
        self._queue.append(received)
        self._start()
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        finally:
            self._mailbox.forget(received.key)

    def _start(self) -> None:
        while self._queue and len(self._running) < self._in_flight:
            batch = [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]
            task = asyncio.create_task(self._run(batch))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _run(self, batch: Sequence[Received[Q]]) -> None:
        # Those whose callers have gone are not asked any more.
        batch = [each for each in batch if self._mailbox.waits(each.key)]
        if not batch:
            return
        try:
            await self._handle(batch)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            if len(batch) == 1:
                self._mailbox.fail(batch[0].key, error)
                return
            # One of them may be the cause: the others are answered.
            for each in batch:
                await self._run([each])


class DirectAsker:
    """Asks the handlers of its own process, as Asker asks those of workers."""

    def __init__(
        self,
        queries: Batches[ContextQuery, ContextResult],
        mailboxes: Mailboxes,
        *,
        tracer: Tracer,
        content: bool,
        now: Callable[[], Timestamp],
    ) -> None:
        """Create a client; content: spans hold queries and answers."""
        self._queries = queries
        self._mailboxes = mailboxes
        self._tracer = tracer
        self._content = content
        self._now = now

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:
        """Return the result; token: of who asks. Raises TimeoutError after `patience_s` seconds."""
        with self._tracer.start_as_current_span("ask", kind=SpanKind.SERVER, record_exception=False) as span:
            describe(span, lambda: asked(query, content=self._content))
            result = await self._queries.ask(_received(query, token, self._now()), patience_s=patience_s)
            describe(span, lambda: answered(result, content=self._content))
            return result

    async def watch(
        self, query: ContextQuery, *, patience_s: float, token: str | None, heard: Callable[[StageTime], None]
    ) -> ContextResult:
        """Return the result, as `ask` does; heard: is told each step as it ends."""
        self._mailboxes.heard[query.query_id] = heard
        try:
            return await self.ask(query, patience_s=patience_s, token=token)
        finally:
            del self._mailboxes.heard[query.query_id]


class DirectDocumentAsker:
    """Asks the handler of document queries of its own process, as DocumentAsker asks those of workers."""

    def __init__(
        self,
        queries: Batches[DocumentQuery, DocumentReport],
        *,
        now: Callable[[], Timestamp],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        """Create a client; ended: returns, or raises why, when nothing is answered any more."""
        self._queries = queries
        self._now = now
        self._ended = ended

    async def ended(self) -> None:
        """Return, or raise why, when nothing is answered any more."""
        await self._ended()

    async def ask(self, query: DocumentQuery, *, patience_s: float, token: str | None = None) -> DocumentReport:
        """Return the report; token: of who asks. Raises TimeoutError after `patience_s` seconds."""
        return await self._queries.ask(_received(query, token, self._now()), patience_s=patience_s)


def _received(query: Asked, token: str | None, now: Timestamp) -> Received[Asked]:
    headers: Headers = () if token is None else ((TOKEN_HEADER, token.encode()),)
    return Received(
        value=query,
        key=query.query_id.encode(),
        headers=headers,
        topic=NOWHERE,
        partition=-1,
        offset=-1,
        timestamp=now,
        trace=get_current(),
    )
