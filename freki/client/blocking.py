"""The client for programs without asyncio: the same calls, each returns when it is done."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from typing import Any, Generic, Literal, Self, TypeVar, Unpack

from freki.client.aio import ALREADY_OPEN, Client, Published, S
from freki.client.broker import Broker
from freki.client.exchange import ClientClosed
from freki.client.fields import DocumentFields, QueryFields
from freki.schemas import ContextQuery, ContextResult, DocumentChange, IndexOutcome
from freki.schemas.errors import Misconfigured, Unavailable

T = TypeVar("T")

_CHECK_INTERVAL_S = 0.5
"""Interval at which a call that waits lets signals in, in seconds."""


class BlockingClient:
    """A `Client` in a thread of its own; may be called by any number of threads.

    Calls that have not ended when it is closed, later and earlier ones raise ClientClosed; those of a process that was
    forked meanwhile raise Misconfigured.

    ```python
    with BlockingClient(Broker(bootstrap="127.0.0.1:9092")) as client:
        result = client.ask("Wie ist der Antrag zu stellen?")
    ```
    """

    def __init__(
        self,
        broker: Broker | None = None,
        *,
        tenant: str = "default",
        token: str | Callable[[], str] | None = None,
        answers_on: str | None = None,
    ) -> None:
        """Create a client; arguments as for `Client`."""
        self._client = Client(broker, tenant=tenant, token=token, answers_on=answers_on)
        self._calls: set[asyncio.Task[Any]] = set()
        self._entrance = threading.Lock()
        self._is_open = False
        self._process_id: int
        """Of the process that opened it."""
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread

    def __enter__(self) -> Self:
        """Connect. Raises Misconfigured if the client is open."""
        self._check_process()
        with self._entrance:
            if self._is_open:
                # Else the thread and the connection of before would never be closed.
                raise Misconfigured(ALREADY_OPEN)
            # Not before: a client that is never opened has nothing to close.
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._work, name="freki-client", daemon=True)
            self._thread.start()
            self._process_id = os.getpid()
            self._is_open = True
        try:
            self._run(self._client.__aenter__())
        except BaseException:
            self._is_open = False
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all calls, and disconnect."""
        if self._is_of_another_process:
            # Nothing of it runs here, and its connections are those of the other one.
            return
        with self._entrance:
            self._is_open = False
        try:
            _result(asyncio.run_coroutine_threadsafe(self._close(), self._loop))
        finally:
            self._end()

    def publish(
        self,
        document: str | DocumentChange,
        content: str | bytes | None = None,
        **fields: Unpack[DocumentFields],
    ) -> Published:
        """Store a document in the stream, as `Client.publish` does."""
        return self._run(self._client.publish(document, content, **fields))

    def delete(self, document_id: str, *, version: int | None = None) -> Published:
        """Delete a document, as `Client.delete` does."""
        return self._run(self._client.delete(document_id, version=version))

    def wait(self, published: Published, *, timeout_s: float = 60.0) -> IndexOutcome:
        """Return the receipt of a change, as `Client.wait` does."""
        return self._run(self._client.wait(published, timeout_s=timeout_s))

    def ask(
        self,
        question: str | ContextQuery,
        *,
        timeout_s: float = 30.0,
        token: str | None = None,
        **fields: Unpack[QueryFields],
    ) -> ContextResult:
        """Return the answer, as `Client.ask` does."""
        return self._run(self._client.ask(question, timeout_s=timeout_s, token=token, **fields))

    def subscribe(
        self, kind: type[S], *, start: Literal["earliest", "latest"] = "latest", every_tenant: bool = False
    ) -> Generator[S, None, None]:
        """Yield receipts or answers as they come, as `Client.subscribe` does; close the iterator to end it."""
        return self._stepped(self._client.subscribe(kind, start=start, every_tenant=every_tenant))

    def _stepped(self, records: AsyncGenerator[S, None]) -> Generator[S, None, None]:
        steps = _Steps(records)
        try:
            while True:
                yield self._run(steps.next())
        finally:
            # The client closes it too, in its own process.
            with suppress(ClientClosed, Misconfigured):
                self._run(steps.aclose())

    async def _close(self) -> None:
        # First: they would go on with a client that is closed.
        await _cancel(self._calls)
        await self._client.__aexit__()
        # Of subscriptions that were left open.
        await self._loop.shutdown_asyncgens()

    @property
    def _is_of_another_process(self) -> bool:
        return self._is_open and self._process_id != os.getpid()

    def _check_process(self) -> None:
        """Raise Misconfigured in a process that was forked while the client was open."""
        if self._is_of_another_process:
            # Its thread is not here, and another one may have held the lock: calls would wait for ever.
            raise Misconfigured("the client was opened in another process, before a fork: open one in each process")

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_process()
        except Misconfigured:
            call.close()
            raise
        with self._entrance:
            if not self._is_open:
                call.close()
                raise ClientClosed("the client is not open: use it in `with`")
            running = asyncio.run_coroutine_threadsafe(self._listed(call), self._loop)
        return _result(running)

    async def _listed(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call that ends with the client at the latest."""
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        try:
            return await task
        finally:
            self._calls.discard(task)

    def _work(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(_cancel(asyncio.all_tasks(self._loop)))
            self._loop.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Steps(Generic[T]):
    """Steps of an endless generator, one at a time."""

    def __init__(self, records: AsyncGenerator[T, None]) -> None:
        self._records = records
        self._step: asyncio.Task[T] | None = None

    async def next(self) -> T:
        self._step = asyncio.ensure_future(self._next())
        return await self._step

    async def aclose(self) -> None:
        # Whoever waited for a step may have been interrupted: it still runs, or is about to end.
        if self._step is not None:
            await _cancel([self._step])
        await self._records.aclose()

    async def _next(self) -> T:
        async for found in self._records:
            return found
        raise Unavailable("nothing more is read")


def _result(running: Future[T]) -> T:
    try:
        # A signal that comes just before a lock is waited for does not end that wait: a Ctrl-C would be lost.
        while not running.done():
            wait([running], timeout=_CHECK_INTERVAL_S)
        return running.result()
    except CancelledError as error:
        raise ClientClosed("the client was closed before the call ended; what it sent may have arrived") from error
    except BaseException:
        # Such as Ctrl-C.
        running.cancel()
        raise


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait for their ends."""
    for task in tasks:
        # A second time would cut off how it ends, as a reader that disconnects.
        if not task.cancelling():
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
