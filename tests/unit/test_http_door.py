"""The HTTP door: what it sends on, what it refuses, and how it says so."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.http_server.app import make_app
from freki.infra.http_server.guard import Rate
from freki.infra.settings import ServeSettings
from freki.operators.validate_query import validate_query
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    Filter,
    FilterOperator,
    IndexOutcome,
    Judgement,
    Notice,
    NoticeKind,
    Operation,
    OutcomeStatus,
    QueryId,
    ReportStatus,
    ResultStatus,
    TenantId,
    Timestamp,
    Verdict,
)
from freki.schemas.answer import AnswerEnd, AnswerEnding, AnswerEvent, AnswerSentence, AnswerText, SupportStatus
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.identity import Identity, RefusalReason
from freki.streams.answering import Answerer
from tests.unit.questions import now, retriever
from tests.unit.revisions import TENANT, World, revision
from tests.unit.test_retriever import TEXTS

ADA = Identity(tenant=TenantId(TENANT), principals=("ada", "staff"), subject="ada", token_id=None)
REFUSED = {ResultStatus.REJECTED: 400, ResultStatus.EXPIRED: 504}


class InProcess:
    """Answers at once, by a store in memory; keeps what came."""

    def __init__(self, world: World) -> None:
        self._retriever = retriever(world)
        self.asked: list[ContextQuery] = []
        self.tokens: list[str | None] = []
        self.changes: list[DocumentChange] = []
        self.judgements: list[Judgement] = []
        self.status = OutcomeStatus.INDEXED
        self.ends: ResultStatus | Exception | None = None
        self.report = ReportStatus.FOUND

    async def publish(self, change: DocumentChange, *, wait_s: float) -> IndexOutcome | None:
        self.changes.append(change)
        if not wait_s:
            return None
        return IndexOutcome(
            tenant=change.tenant,
            document_id=change.document_id,
            version=change.version,
            status=self.status,
            reason="it is no PDF" if self.status is OutcomeStatus.REJECTED else "",
            generation="g1",
            chunks=1,
            embedded=1,
            removed=0,
            tokens=5,
            occurred_at=change.occurred_at,
            recorded_at=now(),
            received_at=now(),
            embedded_at=None,
            searchable_at=now(),
        )

    async def ask(self, query: ContextQuery, *, token: str | None) -> ContextResult:
        self.asked.append(query)
        self.tokens.append(token)
        if isinstance(self.ends, Exception):
            raise self.ends
        query = replace(query, query_id=QueryId("1"), asked_at=now(), principals=("everyone",))
        validate_query(query)
        ((_, result, _),) = [answer async for answer in self._retriever.answer([(query, "")])]
        if self.ends is None:
            return result
        notice = Notice(stage="validate", kind=NoticeKind.REJECTED, message="alpha is 3: 0 to 1")
        return replace(result, status=self.ends, notices=(notice,), hits=())

    async def ask_documents(self, query: DocumentQuery, *, token: str | None) -> DocumentReport:
        self.tokens.append(token)
        return DocumentReport(
            query_id=query.query_id,
            tenant=query.tenant,
            status=self.report,
            message="",
            generation="g1",
            asked_at=Timestamp(1),
            answered_at=Timestamp(2),
            total=0,
            next=None,
        )

    async def judge(self, judgement: Judgement) -> None:
        self.judgements.append(judgement)


@pytest.fixture
async def gateway() -> InProcess:
    world = World()
    await world.feed(revision("a", 1, TEXTS))
    return InProcess(world)


async def identify(token: bytes) -> Identity | RefusalReason:
    return ADA if token == b"good" else RefusalReason.SIGNATURE


class Unlimited:
    async def take(self, _: int) -> bool:
        return True

    async def give_back(self, tokens: int) -> None:
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


@asynccontextmanager
async def door(
    gateway: InProcess, *, tokens: bool = False, answers: bool = False, **given: Any
) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(
        gateway,
        ServeSettings(**given),
        tenant=TENANT,
        identify=identify if tokens else None,
        answerer=Quoting() if answers else Answerer(None, Unlimited(), max_tokens=10),
    )
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8780") as client:
        yield client


def events_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = [block.split("\n") for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in found]


async def test_an_answer_comes_as_events_after_the_hits(gateway: InProcess) -> None:
    async with door(gateway, answers=True) as client:
        reply = await client.post("/v1/answers", json={"text": TEXTS[0]})

    assert reply.headers["content-type"].startswith("text/event-stream")
    events = events_of(reply.text)
    assert [name for name, _ in events] == ["result", "marks", "text", "sentence", "end"]
    assert events[0][1]["hits"][0]["text"] == events[3][1]["text"]
    assert events[3][1]["support"] == "SUPPORTED"


async def test_without_a_language_model_there_are_the_hits_and_nothing_invented(gateway: InProcess) -> None:
    async with door(gateway) as client:
        reply = await client.post("/v1/answers", json={"text": TEXTS[0]})

    (first, result), (second, _), (last, end) = events_of(reply.text)
    assert (first, second, last) == ("result", "marks", "end")
    assert result["hits"]
    assert end["ending"] == "NO_MODEL"


async def test_a_refused_question_has_its_status_and_no_events(gateway: InProcess) -> None:
    gateway.ends = ResultStatus.REJECTED
    async with door(gateway, answers=True) as client:
        reply = await client.post("/v1/answers", json={"text": TEXTS[0]})
    assert reply.status_code == 400
    async with door(gateway, answers=True, tokens=True) as client:
        assert (await client.post("/v1/answers", json={"text": TEXTS[0]})).status_code == 401


async def test_a_question_is_answered_with_all_that_the_topic_would_say(gateway: InProcess) -> None:
    text = TEXTS[0]
    condition = {"field": "language", "operator": "NE", "values": ["xx"]}
    async with door(gateway) as client:
        reply = await client.post("/v1/queries", json={"text": text, "top_k": 2, "filters": [condition]})

    assert reply.status_code == 200, reply.text
    assert reply.json()["hits"][0]["text"]
    (asked,) = gateway.asked
    assert asked.tenant == TENANT
    assert asked.top_k == 2
    assert asked.filters == (Filter(field="language", operator=FilterOperator.NE, values=("xx",)),)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "text"),
        ({"text": "a", "top_K": 3}, "top_K"),
        ({"text": 5}, "text"),
        ({"text": "a", "fusion": "MAGIC"}, "fusion"),
    ],
)
async def test_what_is_wrong_in_a_question_is_named(gateway: InProcess, body: dict[str, Any], named: str) -> None:
    async with door(gateway) as client:
        reply = await client.post("/v1/queries", json=body)

    assert reply.status_code == 422
    assert reply.headers["content-type"] == "application/problem+json"
    assert named in reply.json()["detail"]
    assert reply.json()["errors"][0]["field"].startswith(named)
    assert gateway.asked == []


@pytest.mark.parametrize("status", REFUSED)
async def test_an_answer_without_hits_for_a_reason_is_a_problem_that_says_it(
    gateway: InProcess, status: ResultStatus
) -> None:
    gateway.ends = status
    async with door(gateway) as client:
        reply = await client.post("/v1/queries", json={"text": "a"})

    assert reply.status_code == REFUSED[status]
    assert "alpha is 3" in reply.json()["detail"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TimeoutError(), 504),
        (Unavailable("broker is gone"), 503),
        (Rejected("the question is longer than a record may be"), 422),
        (ValueError("question 1 still waits for its answer"), 409),
    ],
)
async def test_what_fails_below_is_a_problem_of_its_kind(gateway: InProcess, error: Exception, status: int) -> None:
    gateway.ends = error
    async with door(gateway) as client:
        reply = await client.post("/v1/queries", json={"text": "a"})

    assert reply.status_code == status
    assert reply.json()["status"] == status


async def test_a_document_comes_with_its_receipt_or_is_said_to_be_on_its_way(gateway: InProcess) -> None:
    body = {"document_id": "a/b.pdf", "content_base64": b64encode(b"%PDF").decode(), "principals": ["ada"]}
    async with door(gateway) as client:
        waited = await client.post("/v1/documents", json=body)
        stored = await client.post("/v1/documents?wait_ms=0", json=body | {"version": 7})
        deleted = await client.delete("/v1/documents/a/b.pdf?tenant=other&version=8")

    assert (waited.status_code, waited.json()["status"]) == (200, "INDEXED")
    assert (stored.status_code, stored.json()["status"]) == (202, "STORED")
    assert deleted.status_code == 200
    first, second, third = gateway.changes
    assert (first.content, first.principals, first.tenant) == (b"%PDF", ("ada",), TENANT)
    assert second.version == 7
    assert (third.document_id, third.tenant, third.version) == ("a/b.pdf", "other", 8)
    assert third.operation is Operation.DELETE


@pytest.mark.parametrize("more", [{}, {"content": "a", "content_base64": "YQ=="}, {"content_base64": "?"}])
async def test_a_document_has_one_content(gateway: InProcess, more: dict[str, str]) -> None:
    async with door(gateway) as client:
        reply = await client.post("/v1/documents", json={"document_id": "a", **more})

    assert reply.status_code == 422
    assert "content_base64" in reply.json()["detail"]
    assert gateway.changes == []


async def test_a_document_that_can_not_be_indexed_is_a_problem_with_the_reason(gateway: InProcess) -> None:
    gateway.status = OutcomeStatus.REJECTED
    async with door(gateway) as client:
        reply = await client.post("/v1/documents", json={"document_id": "a", "content": "b"})

    assert reply.status_code == 422
    assert reply.json()["detail"] == "it is no PDF"


async def test_documents_are_listed_and_one_that_is_not_there_is_not_found(gateway: InProcess) -> None:
    async with door(gateway) as client:
        assert (await client.get("/v1/documents?prefix=a&principal=ada")).json()["status"] == "FOUND"
        gateway.report = ReportStatus.NOT_FOUND
        assert (await client.get("/v1/documents/a/b.md")).status_code == 404


async def test_who_has_no_valid_token_is_refused_and_others_ask_in_their_own_name(gateway: InProcess) -> None:
    async with door(gateway, tokens=True) as client:
        for headers in ({}, {"Authorization": "Basic good"}, {"Authorization": "Bearer bad"}):
            reply = await client.post("/v1/queries", json={"text": "a"}, headers=headers)
            assert reply.status_code == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")
        good = {"Authorization": "Bearer good"}
        assert (await client.post("/v1/queries", json={"text": "a"}, headers=good)).status_code == 200
        other = await client.post("/v1/queries", json={"text": "a", "tenant": "other"}, headers=good)
        judged = await client.post(
            "/v1/judgements",
            json={
                "query_id": "1",
                "question": "a",
                "document_id": "b",
                "chunk_id": None,
                "verdict": "UP",
                "judge": "eve",
            },
            headers=good,
        )

    assert other.status_code == 403
    assert judged.status_code == 204
    assert gateway.tokens == ["good"]
    assert gateway.asked[0].tenant == TENANT
    assert (gateway.judgements[0].judge, gateway.judgements[0].verdict) == ("ada", Verdict.UP)


@pytest.mark.parametrize(("publishers", "status"), [((), 403), (("bob",), 403), (("staff",), 200)])
async def test_with_tokens_only_publishers_change_documents(
    gateway: InProcess, publishers: tuple[str, ...], status: int
) -> None:
    good = {"Authorization": "Bearer good"}
    async with door(gateway, tokens=True, publishers=publishers) as client:
        replies = [
            await client.post("/v1/documents", json={"document_id": "a", "content": "b"}, headers=good),
            await client.delete("/v1/documents/a", headers=good),
        ]

    assert [reply.status_code for reply in replies] == [status, status]
    assert len(gateway.changes) == (2 if status == 200 else 0)


async def test_no_page_of_another_site_and_no_other_name_reaches_the_index(gateway: InProcess) -> None:
    async with door(gateway) as client:
        asked: dict[str, Any] = {"json": {"text": "a"}}
        elsewhere = await client.post("/v1/queries", **asked, headers={"Origin": "https://evil.example"})
        pointed = await client.post("/v1/queries", **asked, headers={"Host": "evil.example"})
        form = await client.post("/v1/queries", content=b'{"text": "a"}', headers={"Content-Type": "text/plain"})
        own = await client.post("/v1/queries", **asked, headers={"Origin": "http://127.0.0.1:8780"})

    assert [reply.status_code for reply in (elsewhere, pointed, form, own)] == [403, 421, 415, 200]
    assert len(gateway.asked) == 1


async def test_too_much_and_too_many_are_refused_with_the_setting(gateway: InProcess) -> None:
    async with door(gateway, max_body_mb=0.001, calls_per_minute=2) as client:
        large = await client.post("/v1/queries", json={"text": "a" * 2_000})
        replies = [await client.post("/v1/queries", json={"text": "a"}) for _ in range(3)]

    assert large.status_code == 413
    assert "FREKI_SERVE__MAX_BODY_MB" in large.json()["detail"]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 31


@given(
    per_minute=st.integers(1, 120),
    waits=st.lists(st.floats(0, 30, allow_nan=False), min_size=1, max_size=200),
)
def test_never_more_calls_than_a_full_bucket_and_what_flowed_in(per_minute: int, waits: list[float]) -> None:
    at = 0.0
    rate = Rate(per_minute, clock=lambda: at)
    taken = 0
    for wait in waits:
        at += wait
        left = rate.wait_s("ada")
        taken += left == 0
        assert left <= 60 / per_minute
    assert taken <= per_minute * (1 + at / 60) + 1e-6


@pytest.mark.parametrize("given", [{"host": "10.0.0.1"}, {"host": "freki.example.org"}])
def test_a_server_that_anybody_could_call_does_not_start(gateway: InProcess, given: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured, match="FREKI_AUTH__JWKS"):
        make_app(gateway, ServeSettings(**given), tenant=TENANT, answerer=Quoting())


def test_a_server_on_all_addresses_names_its_hosts(gateway: InProcess) -> None:
    with pytest.raises(Misconfigured, match="ALLOWED_HOSTS"):
        make_app(gateway, ServeSettings(host="::"), tenant=TENANT, identify=identify)


def test_a_certificate_comes_with_its_key() -> None:
    with pytest.raises(ValueError, match="FREKI_SERVE__KEY_FILE"):
        ServeSettings(cert_file=Path("a.pem"))


async def test_the_page_comes_with_a_policy_that_lets_no_other_script_run(gateway: InProcess) -> None:
    async with door(gateway) as client:
        for path in ("/", "/static/page.js", "/static/page.css", "/static/icon.svg"):
            reply = await client.get(path)
            assert reply.status_code == 200
            assert "script-src 'self'" in reply.headers["content-security-policy"]
        assert "innerHTML" not in (await client.get("/static/page.js")).text


async def test_the_description_names_every_option_of_a_query(gateway: InProcess) -> None:
    async with door(gateway) as client:
        described = (await client.get("/v1/openapi.json")).json()

    question = described["components"]["schemas"]["Question"]["properties"]
    assert {"text", "top_k", "filters", "deadline_ms", "explain"} <= question.keys()
    assert "query_id" not in question
    assert {"/v1/queries", "/v1/documents", "/v1/documents/{document_id}", "/v1/judgements"} <= described[
        "paths"
    ].keys()


async def test_questions_at_once_do_not_mix(gateway: InProcess) -> None:
    texts = TEXTS
    async with door(gateway) as client:
        replies = await asyncio.gather(*(client.post("/v1/queries", json={"text": text}) for text in texts))

    assert [reply.json()["variants"][0] for reply in replies] == texts
