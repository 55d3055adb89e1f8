"""What the APIs of one process share: one publisher, one reader of receipts, one client for queries."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from freki.client.exchange import check_named, patience_of
from freki.client.versions import Versions
from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import validate_judgement
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    IndexOutcome,
    Judgement,
    QueryId,
    StageTime,
    Timestamp,
)
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.names import record
from freki.streams.client import Publisher, ReceiptBoard
from freki.streams.deliver.outbox import Sink
from freki.streams.documents.handler import DEADLINE_MS
from freki.streams.ports import QueryClient
from freki.streams.retrieve.direct import DirectAsker, DirectDocumentAsker
from freki.streams.retrieve.steps.judged import judgement_key, shortened

_LOOK_S = 5.0
"""Interval of looks whether the broker answers, and the longest wait for one, in seconds."""


class Documents(Protocol):
    """Asks about documents."""

    async def ask(self, query: DocumentQuery, *, patience_s: float, token: str | None = None) -> DocumentReport:
        """Return the report. Raises TimeoutError if none comes in time."""

    async def ended(self) -> None:
        """Return, or raise why, when no report comes any more."""


class Watching(Protocol):
    """Asks, and hears how an answer comes about."""

    async def watch(
        self, query: ContextQuery, *, patience_s: float, token: str | None, heard: Callable[[StageTime], None]
    ) -> ContextResult:
        """Return the result; heard: is told each step as it ends."""


@record
class Direct:
    """Clients of the handlers of this process."""

    asker: DirectAsker
    documents: DirectDocumentAsker


class Gateway:
    """Publishes, asks and judges, for any number of callers at once."""

    def __init__(  # noqa: PLR0913 - all that the APIs share
        self,
        *,
        publisher: Publisher,
        receipts: ReceiptBoard,
        asker: QueryClient,
        documents: Documents,
        judgements: Sink[Judgement],
        deadline_ms: int,
        now: Callable[[], Timestamp],
        watching: Watching | None = None,
    ) -> None:
        """Create a gateway; watching: what tells steps as they end; None: all are known with the answer."""
        self._publisher = publisher
        self._versions = Versions()
        self._receipts = receipts
        self._asker = asker
        self._documents = documents
        self._judgements = judgements
        self.deadline_ms = deadline_ms
        """Of queries that name none: how long to wait for their answers."""
        self._now = now
        self._watching = watching
        self.hears_broker = True
        """Whether the broker answered when it was last asked; True where nobody asks it."""

    async def watch_broker(self, check: Callable[[], Awaitable[None]]) -> None:
        """Ask the broker again and again, so that a probe of readiness costs no call."""
        while True:
            try:
                async with asyncio.timeout(_LOOK_S):
                    await check()
                self.hears_broker = True
            except (TimeoutError, Unavailable):
                self.hears_broker = False
            await asyncio.sleep(_LOOK_S)

    async def broken(self) -> None:
        """Return, or raise why, when receipts or reports are not read any more: restart then."""
        ends = {asyncio.create_task(each.ended()) for each in (self._receipts, self._documents)}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in done:
                end.result()
        finally:
            for end in ends:
                end.cancel()

    async def publish(self, change: DocumentChange, *, wait_s: float) -> IndexOutcome | None:
        """Store a change in the stream; where it has no version (0), under the time, and above the last one given so.

        Returns its receipt, or None if none came within `wait_s` seconds: the change is on its way. Raises Rejected for
        a change without a document.
        """
        check_named(change)
        now = self._now()
        change = replace(change, version=self._versions.of(change, now=now), occurred_at=change.occurred_at or now)
        with self._receipts.expected(change) as receipt:
            await self._publisher.publish(change)
            if not wait_s:
                return None
            try:
                return await receipt(wait_s)
            except TimeoutError:
                return None

    async def ask(self, query: ContextQuery, *, token: str | None) -> ContextResult:
        """Ask under a new id. Raises TimeoutError if no answer comes within a second after the deadline."""
        query = self._dated(query)
        return await self._asker.ask(query, patience_s=self._patience_s(query), token=token)

    async def stream(
        self, query: ContextQuery, *, token: str | None
    ) -> AsyncGenerator[StageTime | ContextResult, None]:
        """Ask under a new id; yield each step once it is known to have ended, and the result last.

        Over a topic all steps are known with the result. Raises TimeoutError as `ask` does.
        """
        query = self._dated(query)
        if self._watching is None:
            result = await self._asker.ask(query, patience_s=self._patience_s(query), token=token)
            for each in result.stages:
                yield each
            yield result
            return
        steps: asyncio.Queue[StageTime | None] = asyncio.Queue()
        answer = asyncio.create_task(
            self._watching.watch(query, patience_s=self._patience_s(query), token=token, heard=steps.put_nowait)
        )
        answer.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while (step := await steps.get()) is not None:
                yield step
            yield answer.result()
        finally:
            answer.cancel()
            await asyncio.wait({answer})

    def _dated(self, query: ContextQuery) -> ContextQuery:
        return replace(query, query_id=QueryId(str(uuid.uuid4())), asked_at=self._now())

    def _patience_s(self, query: ContextQuery) -> float:
        return patience_of(query.deadline_ms or self.deadline_ms)

    async def ask_documents(self, query: DocumentQuery, *, token: str | None) -> DocumentReport:
        """Ask about documents under a new id. Raises TimeoutError as `ask` does."""
        query = replace(query, query_id=QueryId(str(uuid.uuid4())), asked_at=self._now())
        patience_s = patience_of(query.deadline_ms or DEADLINE_MS)
        return await self._documents.ask(query, patience_s=patience_s, token=token)

    async def judge(self, judgement: Judgement) -> None:
        """Store a judgement, with as much of its question as counts. Raises Rejected for one that breaks a rule."""
        try:
            validate_judgement(judgement)
        except InvalidQuery as error:
            raise Rejected(str(error)) from error
        judgement = shortened(replace(judgement, at=self._now()))
        await self._judgements.send(self._judgements.record(judgement, key=judgement_key(judgement)))
