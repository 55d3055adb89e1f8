"""The client for programs without asyncio: the same calls, each returns when it is done."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from freki.client.aio import Client, Published, S
from freki.client.broker import Broker
from freki.client.fields import DocumentFields, QueryFields
from freki.schemas import ContextQuery, ContextResult, DocumentChange, IndexOutcome
from freki.schemas.errors import Unavailable

T = TypeVar("T")


class BlockingClient:
    """A `Client` in a thread of its own; may be called by any number of threads.

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
        self._make: Callable[[], Client] = lambda: Client(broker, tenant=tenant, token=token, answers_on=answers_on)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="freki-client", daemon=True)
        self._client: Client

    def __enter__(self) -> Self:
        """Connect."""
        self._thread.start()
        try:
            self._client = self._run(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        try:
            self._run(self._client.__aexit__(kind, error, trace))
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
        records = self._client.subscribe(kind, start=start, every_tenant=every_tenant)
        try:
            while True:
                yield self._run(_next(records))
        finally:
            self._run(_closed(records))

    async def _open(self) -> Client:
        # In the loop that it works in.
        return await self._make().__aenter__()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(records: AsyncGenerator[T, None]) -> T:
    async for found in records:
        return found
    raise Unavailable("nothing more is read")


async def _closed(records: AsyncGenerator[Any, None]) -> None:
    await records.aclose()
