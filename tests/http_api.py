"""The HTTP API in one process: a gateway on a store in memory, a language model and operations that tests script."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
from fastapi import FastAPI
from opentelemetry.trace import get_current_span

from freki.infra.api.callers import Callers, OnRefused
from freki.infra.api.sizes import QuerySizes
from freki.infra.http_server.app import make_app
from freki.infra.settings import ServeSettings
from freki.operators.errors import InvalidQuery
from freki.operators.group_letters import group_letters
from freki.operators.validate_query import validate_query
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentChunk,
    DocumentId,
    DocumentQuery,
    DocumentReport,
    IndexOutcome,
    Judgement,
    ListedDocument,
    Notice,
    NoticeKind,
    OutcomeStatus,
    QueryId,
    ReportStatus,
    ResultStatus,
    StageTime,
    TenantId,
    Timestamp,
)
from freki.schemas.answer import AnswerEnd, AnswerEnding, AnswerEvent, AnswerSentence, AnswerText, SupportStatus
from freki.schemas.errors import Rejected
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.operations import (
    Freshness,
    GenerationSize,
    LetterGroup,
    LetterView,
    Overview,
    ReplayResult,
    StageLag,
    WorkerHealth,
)
from freki.streams.answering import Answerer
from tests.unit.questions import now, retriever
from tests.unit.revisions import TENANT, World

SIZES = QuerySizes(1_000_000)
ADA = Identity(tenant=TenantId(TENANT), principals=("ada", "staff"), subject="ada", token_id=None)


class InProcess:
    """Answers at once, by a store in memory; keeps what came."""

    def __init__(self, world: World, store: Any = None) -> None:
        self._retriever = retriever(world, store)
        self.hears_broker = True
        self.asked: list[ContextQuery] = []
        self.tokens: list[str | None] = []
        self.traces: list[int] = []
        self.waits_s: list[float] = []
        self.entered = asyncio.Event()
        self.changes: list[DocumentChange] = []
        self.judgements: list[Judgement] = []
        self.status = OutcomeStatus.INDEXED
        self.ends: ResultStatus | Exception | None = None
        self.ends_at = "validate"
        self.report = ReportStatus.FOUND
        self.message = ""
        self.notices: tuple[Notice, ...] = ()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.documents: tuple[ListedDocument, ...] = ()
        self.chunks: tuple[DocumentChunk, ...] = ()

    async def publish(self, change: DocumentChange, *, wait_s: float) -> IndexOutcome | None:
        if isinstance(self.ends, Exception):
            raise self.ends
        self.changes.append(change)
        self.waits_s.append(wait_s)
        if not wait_s:
            return None
        status = self.status
        reason = "it is no PDF" if status is OutcomeStatus.REJECTED else ""
        return receipt(change.tenant, change.document_id, change.version, status, reason)

    async def ask(self, query: ContextQuery, *, token: str | None) -> ContextResult:
        self.asked.append(query)
        self.traces.append(get_current_span().get_span_context().trace_id)
        self.tokens.append(token)
        self.entered.set()
        await self.go_on.wait()
        if isinstance(self.ends, Exception):
            raise self.ends
        # However busy the machine is.
        query = replace(query, query_id=QueryId("1"), asked_at=now(), principals=("everyone",), deadline_ms=600_000)
        try:
            validate_query(query)
        except InvalidQuery as error:
            notice = Notice(stage="validate", kind=NoticeKind.REJECTED, message=str(error))
            return self._retriever.refusal(query, notice, trace_id="")
        ((_, result, _),) = [answer async for answer in self._retriever.answer([(query, "")])]
        if self.ends is None:
            return replace(result, status=ResultStatus.DEGRADED, notices=self.notices) if self.notices else result
        notice = Notice(stage=self.ends_at, kind=NoticeKind.REJECTED, message="alpha is 3: 0 to 1")
        return replace(result, status=self.ends, notices=(notice,), hits=())

    async def stream(
        self, query: ContextQuery, *, token: str | None
    ) -> AsyncGenerator[StageTime | ContextResult, None]:
        result = await self.ask(query, token=token)
        for step in result.stages:
            yield step
        yield result

    async def ask_documents(self, query: DocumentQuery, *, token: str | None) -> DocumentReport:
        self.tokens.append(token)
        return DocumentReport(
            query_id=query.query_id,
            tenant=query.tenant,
            status=self.report,
            message=self.message,
            generation="g1",
            asked_at=Timestamp(1),
            answered_at=Timestamp(2),
            total=len(self.documents),
            next=None,
            documents=self.documents,
            chunks=self.chunks if query.document_id else (),
        )

    async def judge(self, judgement: Judgement) -> None:
        self.judgements.append(judgement)


def receipt(
    tenant: TenantId,
    document_id: DocumentId,
    version: int,
    status: OutcomeStatus = OutcomeStatus.INDEXED,
    reason: str = "",
) -> IndexOutcome:
    return IndexOutcome(
        tenant=tenant,
        document_id=document_id,
        version=version,
        status=status,
        reason=reason,
        generation="g1",
        chunks=1,
        embedded=1,
        removed=0,
        tokens=5,
        occurred_at=Timestamp(version),
        recorded_at=now(),
        received_at=now(),
        embedded_at=None,
        searchable_at=now(),
    )


async def identify(token: bytes) -> Identity | RefusalReason:
    return ADA if token == b"good" else RefusalReason.SIGNATURE


class Unlimited:
    async def take(self, _: int) -> str:
        return "2026-01-01"

    async def give_back(self, tokens: int, *, day: str) -> None:
        """Count nothing."""


class Quoting(Answerer):
    """Answers with the text of the best hit."""

    def __init__(self) -> None:
        super().__init__(None, Unlimited(), max_tokens=10)

    async def answer(self, question: str, result: ContextResult) -> AsyncIterator[AnswerEvent]:
        yield AnswerText(text=question)
        yield AnswerSentence(
            text=result.hits[0].text,
            citations=(1,),
            support=SupportStatus.SUPPORTED,
            doubt=None,
            found_in=(),
            paragraph=True,
        )
        yield AnswerEnd(ending=AnswerEnding.COMPLETE, message="")


class ScriptedOperations:
    """Shows what a test says; keeps what was replayed, and by whom."""

    def __init__(self) -> None:
        self.problems: tuple[str, ...] = ()
        self.sent: list[str] = []
        self.by: list[str] = []
        self.arrived: asyncio.Queue[IndexOutcome] = asyncio.Queue()
        self.opens = asyncio.Event()
        """Whether receipts can be read."""
        self.opens.set()
        self.views = [letter(number, "chunk" if number % 2 else "embed") for number in range(3)]

    async def overview(self) -> Overview:
        return Overview(
            at=now(),
            stages=(
                StageLag(stage="chunk", topic="freki.documents.v1", records=1200, waiting=3, oldest_ms=1500),
                StageLag(stage="retrieve", topic="freki.queries.v1", records=40, waiting=0, oldest_ms=None),
            ),
            workers=(
                WorkerHealth(name="chunk", url="http://127.0.0.1:9464", wrong=()),
                WorkerHealth(name="embed", url="http://127.0.0.1:9465", wrong=("store: no answer",)),
            ),
            generations=(
                GenerationSize(
                    name="g1",
                    answers=True,
                    documents=210,
                    chunks=4100,
                    deletions=2,
                    outdated=0,
                    last_commit_at=now(),
                ),
                GenerationSize(name="g2", answers=False),
            ),
            freshness=Freshness(changes=230, p50_s=0.4, p95_s=1.9),
            dead_letters=3,
            problems=self.problems,
        )

    async def letters(self, *, everything: bool) -> list[LetterGroup]:
        shown = [replace(each, sent_again=each.letter in self.sent) for each in self.views]
        return group_letters(each for each in shown if everything or not each.sent_again)

    async def replay(self, names: Sequence[str], *, by: str) -> list[ReplayResult]:
        if unknown := set(names) - {each.letter for each in self.views}:
            raise Rejected(f"there is no dead letter {min(unknown)}")
        self.by.append(by)
        self.sent += names
        return [ReplayResult(letter=name, sent=True, reason="") for name in names]

    @asynccontextmanager
    async def receipts(self) -> AsyncIterator[AsyncIterator[IndexOutcome]]:
        await self.opens.wait()
        yield self._arriving()

    async def _arriving(self) -> AsyncIterator[IndexOutcome]:
        while True:
            yield await self.arrived.get()


def letter(number: int, stage: str) -> LetterView:
    return LetterView(
        letter=f"0/{number}",
        record=f"freki.documents.v1/0/{number}",
        key=f"default/akten/{number}.pdf",
        stage=stage,
        error="ValueError",
        message=f"row {number} is too long",
        attempts=3,
        replays=0,
        died_at=Timestamp(now() - 1000 * number),
        sent_again=False,
    )


def app_of(
    gateway: InProcess,
    *,
    tokens: bool = False,
    answerer: Answerer | None = None,
    operations: ScriptedOperations | None = None,
    on_refused: OnRefused | None = None,
    callers: Callers | None = None,
    sizes: QuerySizes = SIZES,
    **given: Any,
) -> FastAPI:
    settings = ServeSettings(**given)
    return make_app(
        gateway,
        settings,
        tenant=TENANT,
        callers=callers or Callers(settings, identify if tokens else None, on_refused=on_refused),
        sizes=sizes,
        answerer=answerer or Answerer(None, Unlimited(), max_tokens=10),
        operations=operations,
    )


@asynccontextmanager
async def connected(gateway: InProcess, **given: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(app_of(gateway, **given)) as client:
        yield client


@asynccontextmanager
async def calling(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8780") as client:
        yield client


def events_of(text: str) -> list[tuple[str, Any]]:
    found = [block.split("\n") for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in found]
