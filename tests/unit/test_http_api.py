"""The HTTP API: what it sends on, what it refuses, and how it says so."""

import asyncio
import gzip
import json
from base64 import b64encode
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from freki.client.exchange import AlreadyAsked, NotSent
from freki.infra.api.callers import Callers, Rate, network_of
from freki.infra.api.sizes import QuerySizes
from freki.infra.http_server.bodies import Question
from freki.infra.settings import ServeSettings
from freki.schemas import (
    DocumentId,
    Filter,
    FilterOperator,
    Operation,
    OutcomeStatus,
    ReportStatus,
    ResultStatus,
    Verdict,
)
from freki.schemas.avro import UndecodableError, UnencodableError
from freki.schemas.document_report import NOT_ADMITTED, UNREADABLE, WITHHELD
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.limits import LIMIT
from freki.streams.retrieve.authenticate import STEP as AUTHENTICATE
from freki.streams.retrieve.handler import UNAUDITED
from tests.http_api import ADA, InProcess, Quoting, ScriptedOperations, app_of, calling, connected, events_of, receipt
from tests.unit.questions import TEXTS, Broken
from tests.unit.revisions import TENANT, World

CUT = "hallo \ud83d"
"""Text that was cut within an emoji."""
JSON = {"Content-Type": "application/json"}
REFUSED = {ResultStatus.REJECTED: 400, ResultStatus.EXPIRED: 504}


@pytest.fixture
def gateway(world: World) -> InProcess:
    return InProcess(world)


async def test_an_answer_comes_as_events_after_the_hits(gateway: InProcess) -> None:
    async with connected(gateway, answerer=Quoting()) as client:
        reply = await client.post("/v1/answers", json={"text": TEXTS[0]})

    assert reply.headers["content-type"].startswith("text/event-stream")
    events = events_of(reply.text)
    assert [name for name, _ in events] == ["result", "marks", "text", "sentence", "end"]
    assert events[0][1]["hits"][0]["text"] == events[3][1]["text"]
    assert events[3][1]["support"] == "SUPPORTED"


async def test_without_a_language_model_there_are_the_hits_and_nothing_invented(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/answers", json={"text": TEXTS[0]})

    (first, result), (second, _), (last, end) = events_of(reply.text)
    assert (first, second, last) == ("result", "marks", "end")
    assert result["hits"]
    assert end["ending"] == "NO_MODEL"


async def test_a_refused_question_has_its_status_and_no_events(gateway: InProcess) -> None:
    gateway.ends = ResultStatus.REJECTED
    async with connected(gateway, answerer=Quoting()) as client:
        reply = await client.post("/v1/answers", json={"text": TEXTS[0]})
    assert reply.status_code == 400
    async with connected(gateway, answerer=Quoting(), tokens=True) as client:
        assert (await client.post("/v1/answers", json={"text": TEXTS[0]})).status_code == 401


async def test_marks_are_the_words_of_the_question_in_whatever_form(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/answers?write=false", json={"text": "Welche Gebühren?", "deadline_ms": 60_000})

    (_, result), (name, marks) = events_of(reply.text)
    assert name == "marks"
    marked = {
        hit["text"][start:end] for hit, each in zip(result["hits"], marks, strict=True) for start, end in each["text"]
    }
    assert marked == {"gebühr"}


async def test_operators_see_all_parts_and_send_dead_letters_again(gateway: InProcess) -> None:
    operations = ScriptedOperations()
    async with connected(gateway, operations=operations) as client:
        overview = (await client.get("/v1/operations/overview")).json()
        groups = (await client.get("/v1/operations/dead-letters")).json()
        sent = await client.post("/v1/operations/dead-letters/replay", json={"letters": ["0/1"]})
        left = (await client.get("/v1/operations/dead-letters")).json()
        unknown = await client.post("/v1/operations/dead-letters/replay", json={"letters": ["0/9"]})

    assert overview["stages"][0]["waiting"] == 3
    assert {len(group["letters"]) for group in groups} == {1, 2}
    assert sent.json() == [{"letter": "0/1", "sent": True, "reason": "", "superseded": False, "sent_before": False}]
    assert [each["letter"] for group in left for each in group["letters"]] == ["0/0", "0/2"]
    assert unknown.status_code == 422
    assert operations.by == ["serve:127.0.0.1"]


@pytest.mark.parametrize(
    ("operators", "status"),
    [((), 403), (("other/staff",), 403), (("t/staff",), 200), (("t/ada",), 200)],
)
async def test_with_tokens_only_operators_of_their_tenant_see_operations(
    gateway: InProcess, operators: tuple[str, ...], status: int
) -> None:
    headers = {"Authorization": "Bearer good"}
    operations = ScriptedOperations()
    async with connected(gateway, tokens=True, operations=operations, operators=operators) as client:
        assert (await client.get("/v1/operations/overview")).status_code == 401
        for path in ("overview", "dead-letters"):
            assert (await client.get(f"/v1/operations/{path}", headers=headers)).status_code == status
        body = {"letters": ["0/1"]}
        sent = await client.post("/v1/operations/dead-letters/replay", json=body, headers=headers)
    assert sent.status_code == status
    assert operations.by == (["serve:t/ada"] if status == 200 else [])


async def test_receipts_come_until_the_server_stops(gateway: InProcess) -> None:
    operations = ScriptedOperations()
    app = app_of(gateway, operations=operations)
    async with calling(app) as client:
        listening = asyncio.create_task(client.get("/v1/operations/receipts"))
        operations.arrived.put_nowait(receipt(TENANT, DocumentId("a.md"), 1))
        while not operations.arrived.empty():  # noqa: ASYNC110 - taken by the stream
            await asyncio.sleep(0)
        app.state.stopping.set()
        events = events_of((await listening).text)

    assert [name for name, _ in events] in (["ready", "receipt"], ["ready"])


@pytest.mark.parametrize("why", ["the token expired", "they are no operator any more"])
async def test_no_receipt_goes_to_who_was_an_operator(gateway: InProcess, why: str) -> None:
    judged: list[Identity | RefusalReason] = [ADA, ADA]

    async def identify(_: bytes) -> Identity | RefusalReason:
        return judged.pop(0) if judged else RefusalReason.EXPIRED

    operations = ScriptedOperations()
    callers = Callers(ServeSettings(), identify)
    app = app_of(gateway, callers=callers, operations=operations, operators=("t/staff",))
    for version in (1, 2, 3):
        operations.arrived.put_nowait(receipt(TENANT, DocumentId("a.md"), version))
    if why == "they are no operator any more":
        judged += [replace(ADA, principals=("ada",))]
    async with calling(app) as client:
        stream = await client.get("/v1/operations/receipts", headers={"Authorization": "Bearer good"})

    events = events_of(stream.text)
    assert [name for name, _ in events] == ["ready", "receipt", "failed"]
    assert events[1][1]["version"] == 1
    assert "no longer valid" in events[2][1]["detail"]


async def test_ready_is_not_said_before_receipts_are_read(gateway: InProcess) -> None:
    operations = ScriptedOperations()
    operations.opens.clear()
    app = app_of(gateway, operations=operations)
    async with calling(app) as client:
        listening = asyncio.create_task(client.get("/v1/operations/receipts"))
        # Time for the stream to begin.
        await asyncio.sleep(0.1)
        app.state.stopping.set()
        assert events_of((await listening).text) == []


async def test_no_form_of_another_site_sends_a_dead_letter_again(gateway: InProcess) -> None:
    operations = ScriptedOperations()
    path, body = "/v1/operations/dead-letters/replay", b'{"letters": ["0/1"]}'
    async with connected(gateway, operations=operations) as client:
        plain = await client.post(path, content=body, headers={"Content-Type": "text/plain"})
        other = await client.post(
            path, content=body, headers={"Content-Type": "application/json", "Origin": "http://x"}
        )
        read = await client.get(path)
    assert (plain.status_code, other.status_code, read.status_code) == (415, 403, 405)
    assert operations.sent == []


async def test_a_question_is_answered_with_all_that_the_topic_would_say(gateway: InProcess) -> None:
    text = TEXTS[0]
    condition = {"field": "language", "operator": "NE", "values": ["xx"]}
    async with connected(gateway) as client:
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
    async with connected(gateway) as client:
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
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", json={"text": "a"})

    assert reply.status_code == REFUSED[status]
    assert "alpha is 3" in reply.json()["detail"]


@pytest.mark.parametrize(
    ("ends", "stage", "status"),
    [(ResultStatus.REJECTED, AUTHENTICATE, 403), (ResultStatus.EXPIRED, UNAUDITED.stage, 503)],
)
@pytest.mark.parametrize("path", ["/v1/queries", "/v1/queries/stream"])
async def test_missing_rights_and_an_answer_withheld_have_statuses_of_their_own(
    gateway: InProcess, path: str, ends: ResultStatus, stage: str, status: int
) -> None:
    gateway.ends, gateway.ends_at = ends, stage
    async with connected(gateway) as client:
        reply = await client.post(path, json={"text": "a"})

    told = reply.json() if path == "/v1/queries" else events_of(reply.text)[-1][1]
    assert told["status"] == status
    assert "alpha is 3" in told["detail"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TimeoutError(), 504),
        (NotSent("the broker has not taken it"), 503),
        (Unavailable("the broker at secret:9092 does not answer"), 503),
        (Misconfigured("the server may not write to its topic secret"), 503),
        (Rejected("the query is longer than a record may be"), 422),
        (UnencodableError("ContextQuery: ContextQuery.top_k must be int"), 422),
        (AlreadyAsked("query 1 still waits for its answer"), 409),
        (UndecodableError("secret"), 500),
        (RuntimeError("secret"), 500),
    ],
)
async def test_what_fails_below_is_a_problem_of_its_kind(gateway: InProcess, error: Exception, status: int) -> None:
    gateway.ends = error
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", json={"text": "a"})

    assert reply.status_code == status
    assert reply.json()["status"] == status
    assert reply.headers["x-request-id"]
    assert "secret" not in reply.text


async def test_a_change_that_no_record_can_hold_is_a_problem_too(gateway: InProcess) -> None:
    gateway.ends = UnencodableError("DocumentChange: DocumentChange.priority must be int")
    async with connected(gateway) as client:
        published = await client.post("/v1/documents", json={"document_id": "a", "content": "b"})
        deleted = await client.delete("/v1/documents/a")

    assert [reply.status_code for reply in (published, deleted)] == [422, 422]
    assert "priority" in published.json()["detail"]


JUDGED = {"query_id": "1", "document_id": "b", "chunk_id": None, "verdict": "UP", "judge": "eve"}


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("queries", {"text": CUT}, "text"),
        ("queries", {"text": "a", "principals": ["ada", CUT]}, "principals"),
        ("queries/stream", {"text": CUT}, "text"),
        ("answers", {"text": CUT}, "text"),
        ("vector_stores/t/search", {"query": CUT}, "query"),
        ("vector_stores/t/search", {"query": "a", "filters": {"type": "eq", "key": CUT, "value": "b"}}, "filters"),
        ("documents", {"document_id": "a", "content": CUT}, "content"),
        ("documents", {"document_id": CUT, "content": "a"}, "document_id"),
        ("documents", {"document_id": "a", "content": "b", "attributes": {CUT: "c"}}, "attributes"),
        ("documents", {"document_id": "a", "content": "b", "tenant": CUT}, "tenant"),
        ("judgements", {**JUDGED, "question": CUT}, "question"),
        ("operations/dead-letters/replay", {"letters": [CUT]}, "letters"),
    ],
)
async def test_half_of_a_character_is_refused_with_its_field(
    gateway: InProcess, path: str, body: dict[str, Any], named: str
) -> None:
    async with connected(gateway, operations=ScriptedOperations()) as client:
        # As JavaScript writes it; httpx would not.
        headers = {"Content-Type": "application/json"}
        reply = await client.post(f"/v1/{path}", content=json.dumps(body), headers=headers)

    assert reply.status_code == 422
    assert reply.json()["detail"].startswith(f"{named}: ")
    assert "lone surrogate" in reply.json()["detail"]
    assert (gateway.asked, gateway.changes, gateway.judgements) == ([], [], [])


@pytest.mark.parametrize("version", [2**63, 99999999999999999999])
async def test_a_version_that_no_record_can_hold_is_refused(gateway: InProcess, version: int) -> None:
    document = {"document_id": "a", "content": "b"}
    async with connected(gateway) as client:
        replies = [
            await client.post("/v1/documents", json={**document, "version": version}),
            await client.post("/v1/documents", json={**document, "occurred_at": version}),
            await client.delete(f"/v1/documents/a?version={version}"),
        ]
        largest = await client.delete(f"/v1/documents/a?version={2**63 - 1}")

    assert [reply.status_code for reply in replies] == [422, 422, 422]
    assert [reply.json()["errors"][0]["field"] for reply in replies] == ["version", "occurred_at", "version"]
    assert largest.status_code == 200
    assert [change.version for change in gateway.changes] == [2**63 - 1]


async def assert_refused(gateway: InProcess, path: str, body: dict[str, Any], named: str, *, told: str) -> None:
    async with connected(gateway) as client:
        reply = await client.post(f"/v1/{path}", json=body)

    assert reply.status_code == 422
    assert [each["field"] for each in reply.json()["errors"]] == [named]
    assert told in reply.json()["detail"]
    assert (gateway.asked, gateway.changes) == ([], [])


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        *[("queries", {"text": "a", name: True}, name) for name in ("top_k", "alpha", "deadline_ms", "min_score")],
        *[("documents", {"document_id": "a", "content": "b", n: True}, n) for n in ("version", "occurred_at")],
        ("queries", {"text": "a", "levels": [2, True]}, "levels"),
        ("queries/stream", {"text": "a", "at_least": [{"document_id": "b", "version": True}]}, "at_least"),
        ("vector_stores/a/search", {"query": "a", "max_num_results": True}, "max_num_results"),
        (
            "vector_stores/a/search",
            {"query": "a", "ranking_options": {"score_threshold": False}},
            "ranking_options.score_threshold",
        ),
    ],
)
async def test_a_truth_value_is_no_number(gateway: InProcess, path: str, body: dict[str, Any], named: str) -> None:
    await assert_refused(gateway, path, body, named, told="is no number")


@pytest.mark.parametrize(
    ("path", "body", "named", "told"),
    [
        *[
            ("queries", {"text": "a", name: text}, name, "a text is no number")
            for name in ("top_k", "alpha", "min_score")
            for text in ("1_0", "010", " 1 ", "1e1")
        ],
        ("documents", {"document_id": "a", "content": "b", "version": "7.0"}, "version", "no number"),
        ("documents", {"document_id": "a", "content": "b", "priority": "7.0"}, "priority", "no number"),
        ("queries", {"text": "a", "levels": [2, "+1"]}, "levels", "a text is no number"),
        ("queries", {"text": "a", "at_least": [{"document_id": "b", "version": "1_0"}]}, "at_least", "no number"),
        ("vector_stores/a/search", {"query": "a", "max_num_results": "1_0"}, "max_num_results", "a text is no number"),
        (
            "vector_stores/a/search",
            {"query": "a", "ranking_options": {"score_threshold": "0.5"}},
            "ranking_options.score_threshold",
            "a text is no number",
        ),
        *[("queries", {"text": "a", "explain": value}, "explain", "no truth value") for value in ("off", 1, 0.0)],
    ],
)
async def test_a_text_is_a_number_in_digits_alone_and_no_truth_value(
    gateway: InProcess, path: str, body: dict[str, Any], named: str, told: str
) -> None:
    await assert_refused(gateway, path, body, named, told=told)


@pytest.mark.parametrize("version", ["1_0", " 7", "7.0", "+7", "\u0667"])
async def test_a_number_in_an_address_is_written_in_digits(gateway: InProcess, version: str) -> None:
    async with connected(gateway) as client:
        reply = await client.delete("/v1/documents/a", params={"version": version})

    assert reply.status_code == 422
    assert gateway.changes == []


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("documents", {"document_id": "a", "content": "b", "version": 9007199254740993.0}, "version"),
        ("documents", {"document_id": "a", "content": "b", "occurred_at": 1e17}, "occurred_at"),
        ("queries", {"text": "a", "at_least": [{"document_id": "b", "version": 9007199254740993.0}]}, "at_least"),
    ],
)
async def test_a_number_that_stands_for_several_is_refused(
    gateway: InProcess, path: str, body: dict[str, Any], named: str
) -> None:
    await assert_refused(gateway, path, body, named, told="several whole numbers")


async def test_whole_numbers_are_exact_however_they_are_written(gateway: InProcess) -> None:
    document = {"document_id": "a", "content": "b"}
    async with connected(gateway) as client:
        for version in (2**53 + 1, float(2**53 - 1), str(2**53 + 1)):
            assert (await client.post("/v1/documents", json={**document, "version": version})).status_code == 200

    assert [change.version for change in gateway.changes] == [2**53 + 1, 2**53 - 1, 2**53 + 1]


async def test_a_truth_value_is_one_where_one_belongs(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", json={"text": TEXTS[0], "explain": True, "exact": False, "top_k": 2.0})

    assert reply.status_code == 200, reply.text


async def test_steps_and_hits_come_as_events_before_the_rest_of_the_answer(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        asked = await client.post("/v1/queries", json={"text": TEXTS[0]})
        reply = await client.post("/v1/queries/stream", json={"text": TEXTS[0]})

    assert reply.headers["content-type"].startswith("text/event-stream")
    events = events_of(reply.text)
    names = [name for name, _ in events]
    assert names == sorted(names, key=["step", "hit", "result"].index)
    assert {"stage", "milliseconds", "items"} == events[0][1].keys()
    hits = [data["text"] for name, data in events if name == "hit"]
    assert hits == [hit["text"] for hit in asked.json()["hits"]]
    assert events[-1][1]["context"] == asked.json()["context"]
    assert events[-1][1]["hits"] == []


@pytest.mark.parametrize("status", REFUSED)
async def test_what_fails_after_the_first_event_is_an_event_of_its_own(
    gateway: InProcess, status: ResultStatus
) -> None:
    gateway.ends = status
    async with connected(gateway) as client:
        (*_, (name, problem)) = events_of((await client.post("/v1/queries/stream", json={"text": "a"})).text)
        gateway.ends = Unavailable("the broker at secret:9092 does not answer")
        at_once = await client.post("/v1/queries/stream", json={"text": "a"})

    assert (name, problem["status"]) == ("error", REFUSED[status])
    assert at_once.status_code == 503


async def test_a_vector_store_is_searched_as_its_clients_expect(gateway: InProcess) -> None:
    conditions = [
        {"type": "eq", "key": "language", "value": "de"},
        {"type": "and", "filters": [{"type": "nin", "key": "office", "value": ["a", "b"]}]},
    ]
    body = {
        "query": TEXTS[0],
        "max_num_results": 2,
        "filters": {"type": "and", "filters": conditions},
        "ranking_options": {"ranker": "none", "score_threshold": 0.1},
    }
    async with connected(gateway) as client:
        plain = await client.post("/v1/vector_stores/t2/search", json={"query": TEXTS[0]})
        reply = await client.post("/v1/vector_stores/t2/search", json=body)
        found = await client.post(f"/v1/vector_stores/{TENANT}/search", json={"query": TEXTS[0]})

    assert (plain.status_code, reply.status_code) == (200, 200), reply.text
    page = found.json()
    assert page.keys() == {"object", "search_query", "data", "has_more", "next_page"}
    assert (page["object"], page["search_query"]) == ("vector_store.search_results.page", TEXTS[0])
    best = page["data"][0]
    assert (best["file_id"], best["content"][0]["type"]) == ("a", "text")
    assert best["content"][0]["text"] in TEXTS[0]
    asked = gateway.asked[1]
    assert (asked.tenant, asked.top_k, asked.min_score, asked.reranker) == ("t2", 2, 0.1, "NONE")
    assert [(each.field, each.operator, each.values) for each in asked.filters] == [
        ("language", "EQ", ("de",)),
        ("attributes.office", "NOT_IN", ("a", "b")),
    ]


@pytest.mark.parametrize(
    ("ranking", "least"), [({}, None), ({"score_threshold": 0}, 0.0), ({"score_threshold": -1}, -1.0)]
)
async def test_the_least_score_of_a_vector_store_is_the_setting_only_where_none_is_given(
    gateway: InProcess, ranking: dict[str, float], least: float | None
) -> None:
    async with connected(gateway) as client:
        await client.post("/v1/vector_stores/t/search", json={"query": TEXTS[0], "ranking_options": ranking})

    assert gateway.asked[-1].min_score == least


def test_what_is_nested_too_deep_to_be_written_breaks_a_rule() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]

    with pytest.raises(ValidationError, match="nested too deep"):
        Question.model_validate({"text": "a", "filters": nested})


async def test_a_vector_store_that_can_not_be_searched_is_not_an_empty_one(world: World) -> None:
    async with connected(InProcess(world, Broken(world.index, "dense", "lexical"))) as client:
        reply = await client.post("/v1/vector_stores/t/search", json={"query": TEXTS[0]})

    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert "search.dense failed: it does not answer" in reply.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"query": ["a", "b"]},
        {"query": "a", "rewrite_query": True},
        {"query": "a", "filters": {"type": "gt", "key": "year", "value": 2020}},
        {"query": "a", "filters": {"type": "or", "filters": []}},
        {"query": "a", "filters": {"type": "eq", "key": "b", "value": ["c"]}},
        {"query": "a", "max_num_results": 51},
    ],
)
async def test_what_a_vector_store_can_not_do_here_is_refused(gateway: InProcess, body: dict[str, Any]) -> None:
    async with connected(gateway) as client:
        assert (await client.post("/v1/vector_stores/t/search", json=body)).status_code == 422

    assert gateway.asked == []


async def test_of_wrong_filters_within_filters_only_the_first_one_of_each_list_is_named(gateway: InProcess) -> None:
    wrong: list[Any] = [{"type": "and", "filters": [{}, {}]}, {}]
    async with connected(gateway) as client:
        reply = await client.post(
            "/v1/vector_stores/t/search", json={"query": "a", "filters": {"type": "and", "filters": wrong}}
        )

    # Thousands, each with its path, took the server seconds, in which nobody was answered.
    named = {part for error in reply.json()["errors"] for part in error["field"].split(".") if part.isdecimal()}
    assert (reply.status_code, named) == (422, {"0"})


async def test_a_document_comes_with_its_receipt_or_is_said_to_be_on_its_way(gateway: InProcess) -> None:
    body = {"document_id": "a/b.pdf", "content_base64": b64encode(b"%PDF").decode(), "principals": ["ada"]}
    async with connected(gateway) as client:
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


@pytest.mark.parametrize(
    "more",
    [{}, {"content": "a", "content_base64": "YQ=="}, {"content_base64": "?"}, {"content_base64": "ä"}],
)
async def test_a_document_has_one_content(gateway: InProcess, more: dict[str, str]) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/documents", json={"document_id": "a", **more})

    assert reply.status_code == 422
    assert "content_base64" in reply.json()["detail"]
    assert gateway.changes == []


@pytest.mark.parametrize(
    "body",
    [
        {"text": TEXTS[0], "x" * 1_000_000: 1},
        {"text": TEXTS[0], **{f"{number}": 1 for number in range(5_000)}},
        {"text": TEXTS[0], "filters": [{"field": "x" * 1_000_000, "operator": "EQ", "values": ["a"]}]},
        {"text": TEXTS[0], "where": f"language = 'de' AND {'x' * 100_000} ?"},
    ],
)
async def test_a_refusal_does_not_repeat_all_that_was_sent(gateway: InProcess, body: dict[str, object]) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", json=body)

    assert reply.status_code in {400, 422}
    assert len(reply.content) < 10_000


async def test_a_document_that_can_not_be_indexed_is_a_problem_with_the_reason(gateway: InProcess) -> None:
    gateway.status = OutcomeStatus.REJECTED
    async with connected(gateway) as client:
        reply = await client.post("/v1/documents", json={"document_id": "a", "content": "b"})

    assert reply.status_code == 422
    assert reply.json()["detail"] == "it is no PDF"


async def test_documents_are_listed_and_one_that_is_not_there_is_not_found(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        assert (await client.get("/v1/documents?prefix=a&principal=ada")).json()["status"] == "FOUND"
        gateway.report = ReportStatus.NOT_FOUND
        assert (await client.get("/v1/documents/a/b.md")).status_code == 404


@pytest.mark.parametrize(
    ("report", "message", "status"),
    [
        (ReportStatus.REJECTED, "cursor: '-' is none of SHOW; give `next` of the report before", 400),
        (ReportStatus.REJECTED, f"{NOT_ADMITTED}it expired", 403),
        (ReportStatus.EXPIRED, "it waited longer than its deadline; ask again", 504),
        (ReportStatus.EXPIRED, WITHHELD, 503),
        (ReportStatus.EXPIRED, UNREADABLE, 503),
    ],
)
async def test_a_question_about_documents_is_refused_with_the_status_of_its_reason(
    gateway: InProcess, report: ReportStatus, message: str, status: int
) -> None:
    gateway.report, gateway.message = report, message
    async with connected(gateway) as client:
        replies = [await client.get("/v1/documents"), await client.get("/v1/documents/a")]

    assert [(reply.status_code, reply.json()["detail"]) for reply in replies] == [(status, message)] * 2


async def test_who_has_no_valid_token_is_refused_and_others_ask_in_their_own_name(gateway: InProcess) -> None:
    async with connected(gateway, tokens=True) as client:
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


@pytest.mark.parametrize(
    ("publishers", "status"),
    [((), 403), (("t/bob",), 403), (("other/staff",), 403), (("t/staff",), 200), (("t/ada",), 200)],
)
async def test_with_tokens_only_publishers_change_documents(
    gateway: InProcess, publishers: tuple[str, ...], status: int
) -> None:
    good = {"Authorization": "Bearer good"}
    async with connected(gateway, tokens=True, publishers=publishers) as client:
        replies = [
            await client.post("/v1/documents", json={"document_id": "a", "content": "b"}, headers=good),
            await client.delete("/v1/documents/a", headers=good),
        ]

    assert [reply.status_code for reply in replies] == [status, status]
    assert len(gateway.changes) == (2 if status == 200 else 0)


async def test_no_page_of_another_site_and_no_other_name_reaches_the_index(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        asked: dict[str, Any] = {"json": {"text": "a"}}
        elsewhere = await client.post("/v1/queries", **asked, headers={"Origin": "https://evil.example"})
        pointed = await client.post("/v1/queries", **asked, headers={"Host": "evil.example"})
        form = await client.post("/v1/queries", content=b'{"text": "a"}', headers={"Content-Type": "text/plain"})
        own = await client.post("/v1/queries", **asked, headers={"Origin": "http://127.0.0.1:8780"})

    assert [reply.status_code for reply in (elsewhere, pointed, form, own)] == [403, 421, 415, 200]
    assert len(gateway.asked) == 1


@pytest.mark.parametrize(
    "host",
    [
        *("evil{.example", 'evil".example', "evil`.example:8780", "evil.example/health?", "[", ""),
        *("evil.example@127.0.0.1", "@127.0.0.1", "127.0.0.1/evil.example", "127.0.0.1?evil.example"),
    ],
)
async def test_a_host_that_is_no_name_is_none_of_this_server(gateway: InProcess, host: str) -> None:
    """Browsers take names with such signs, and send them as they are."""
    async with connected(gateway) as client:
        refused = await client.post("/v1/queries", json={"text": "a"}, headers={"Host": host})

    assert refused.status_code == 421
    assert gateway.asked == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8780", "[::1]:8780", "127.0.0.1"])
async def test_names_of_this_server_count_in_any_case_with_any_port(gateway: InProcess, host: str) -> None:
    async with connected(gateway) as client:
        answered = await client.post("/v1/queries", json={"text": "a"}, headers={"Host": host})

    assert answered.status_code == 200


@pytest.mark.parametrize("origin", ["http://[", "null", "", "127.0.0.1:8780"])
async def test_an_origin_that_is_no_address_is_another_site(gateway: InProcess, origin: str) -> None:
    async with connected(gateway) as client:
        refused = await client.post("/v1/queries", json={"text": "a"}, headers={"Origin": origin})

    assert refused.status_code == 403


async def test_the_type_of_a_body_has_any_case(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        told = {"Content-Type": "Application/JSON; charset=UTF-8"}
        answered = await client.post("/v1/queries", content=b'{"text": "a"}', headers=told)

    assert answered.status_code == 200


async def test_a_body_in_chunks_is_refused_whatever_length_it_tells(gateway: InProcess) -> None:
    """Servers read the chunks then, however many there are."""
    async with connected(gateway, max_body_mb=0.001) as client:
        told = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
        refused = await client.post("/v1/queries", json={"text": "a" * 2_000}, headers=told)

    assert refused.status_code == 411
    assert gateway.asked == []


@pytest.mark.parametrize("told", [{"Transfer-Encoding": "chunked"}, {"Content-Length": "15"}], ids=["chunks", "length"])
@pytest.mark.parametrize("method", ["DELETE", "GET"])
async def test_a_body_that_nobody_reads_is_refused(gateway: InProcess, method: str, told: dict[str, str]) -> None:
    """A version in it would not be that of the deletion."""
    async with connected(gateway) as client:
        refused = await client.request(method, "/v1/documents/a", content=b'{"version": 12}', headers=told)

    assert (refused.status_code, gateway.changes) == (400, [])
    assert refused.json()["detail"] == f"{method} has no body here: parameters go in the address"


async def test_a_body_that_is_no_json_says_where(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        refused = await client.post("/v1/queries", content=b'{"text": }', headers={"Content-Type": "application/json"})

    assert refused.status_code == 422
    assert refused.json()["detail"] == "body: no JSON at character 9: Expecting value"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"text": "Gebühr"}'.encode("latin-1"), "body: byte 13 is no UTF-8"),
        (b'{"text": ' + b"[" * 10_000, "body: it is nested too deep"),
        (b'{"text": "a", "top_k": ' + b"9" * 5_000 + b"}", "body: a number in it has too many digits"),
    ],
    ids=["latin-1", "nested", "digits"],
)
async def test_a_body_that_can_not_be_read_says_why(gateway: InProcess, content: bytes, says: str) -> None:
    async with connected(gateway) as client:
        refused = await client.post("/v1/queries", content=content, headers={"Content-Type": "application/json"})

    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(says)


@pytest.mark.parametrize(
    ("path", "content", "name"),
    [
        ("queries", r'{"text": "a", "tenant": "one", "tenant": "two"}', '"tenant"'),
        ("queries", r'{"text": "a", "t\u0065xt": "b"}', '"text"'),
        ("queries/stream", r'{"text": "a", "text": "a"}', '"text"'),
        ("answers", r'{"text": "a", "\ud83d": 1, "\ud83d": 2}', r'"\ud83d"'),
        ("documents", r'{"document_id": "a", "content": "b", "attributes": {"year": "1", "year": "2"}}', '"year"'),
        ("judgements", r'{"judge": "ada", "judge": "eve"}', '"judge"'),
        ("vector_stores/t/search", r'{"query": "a", "filters": {"type": "eq", "type": "ne"}}', '"type"'),
        ("operations/dead-letters/replay", r'{"letters": ["0/0"], "letters": ["0/1"]}', '"letters"'),
    ],
)
async def test_a_field_that_comes_twice_is_refused(gateway: InProcess, path: str, content: str, name: str) -> None:
    """A proxy that checks calls may have read the other one."""
    async with connected(gateway, operations=ScriptedOperations()) as client:
        refused = await client.post(f"/v1/{path}", content=content, headers=JSON)

    assert refused.status_code == 422
    assert refused.json()["detail"] == f"body: {name} comes more than once in it; send it once"
    assert (gateway.asked, gateway.changes, gateway.judgements) == ([], [], [])


@pytest.mark.parametrize(
    ("method", "path", "has"),
    [
        ("DELETE", "/v1/documents/a?tenat=acme", "tenant, version, wait_ms"),
        ("GET", "/v1/documents?tennant=acme", "tenant"),
        ("POST", "/v1/queries?tenant=acme", "none"),
    ],
)
async def test_a_parameter_that_a_route_does_not_have_is_refused_with_those_that_it_has(
    gateway: InProcess, method: str, path: str, has: str
) -> None:
    async with connected(gateway) as client:
        refused = await client.request(method, path, json={"text": "a"} if method == "POST" else None)

    assert refused.status_code == 422, "for the default tenant it would be another document"
    assert "no parameter of this route" in refused.json()["detail"]
    assert has in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("DELETE", "/v1/documents/a?tenant=acme&tenant=other", "tenant"),
        ("DELETE", "/v1/documents/a?version=1&version=2", "version"),
        ("GET", "/v1/documents/a?tenant=acme&tenant=acme", "tenant"),
        ("GET", "/v1/documents?tenant=acme&tenant=other&principal=ada", "tenant"),
    ],
)
async def test_a_parameter_that_comes_twice_is_refused(gateway: InProcess, method: str, path: str, name: str) -> None:
    async with connected(gateway) as client:
        refused = await client.request(method, path)

    assert refused.status_code == 422, "a proxy that checks the first one would let the last one through"
    assert refused.json()["detail"] == f"{name}: it comes more than once; send it once"
    assert not gateway.changes


async def test_there_may_be_several_principals(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        listed = await client.get("/v1/documents?principal=ada&principal=staff")

    assert listed.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/queries", {"text": "a", "tenant": ""}),
        ("POST", "/v1/queries/stream", {"text": "a", "tenant": " "}),
        ("POST", "/v1/documents", {"document_id": "a", "content": "b", "tenant": ""}),
        ("DELETE", "/v1/documents/a?tenant=", None),
        ("GET", "/v1/documents?tenant=", None),
        ("POST", "/v1/vector_stores/%20/search", {"query": "a"}),
    ],
)
async def test_an_empty_tenant_is_not_the_default_one(
    gateway: InProcess, method: str, path: str, body: dict[str, str] | None
) -> None:
    async with connected(gateway) as client:
        refused = await client.request(method, path, json=body)

    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("tenant: it is empty; name one, or leave it out")
    assert gateway.asked == []


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/documents/a", "DELETE, GET"),
        ("PATCH", "/v1/documents", "GET, POST"),
        ("GET", "/v1/queries", "POST"),
        ("DELETE", "/health", "GET, HEAD"),
        ("OPTIONS", "/static/page.css", "GET, HEAD"),
    ],
)
async def test_a_method_that_an_address_does_not_have_is_refused_with_all_that_it_has(
    gateway: InProcess, method: str, path: str, allowed: str
) -> None:
    async with connected(gateway) as client:
        refused = await client.request(method, path, json={} if method == "PUT" else None)

    assert refused.status_code == 405
    assert refused.headers["allow"] == allowed
    assert refused.json()["detail"] == f"{method} does not go here: use {allowed}"


@pytest.mark.parametrize(
    ("method", "path", "wrong"),
    [
        ("DELETE", "/v1/documents/caf%E9", "%E9"),
        ("GET", "/v1/documents/%C0%AE%C0%AE", "%C0"),
        ("GET", "/v1/documents?prefix=caf%E9", "%E9"),
        ("DELETE", "/v1/documents/a?tenant=b%FF", "%FF"),
    ],
)
async def test_an_address_that_is_no_utf_8_names_no_other_document(
    gateway: InProcess, method: str, path: str, wrong: str
) -> None:
    async with connected(gateway) as client:
        reply = await client.request(method, path)

    assert reply.status_code == 400
    assert reply.json()["detail"].startswith(f"{wrong} in the address is no UTF-8")
    assert gateway.changes == []


@pytest.mark.parametrize("path", ["a%0A", "a%0Ab", "%0A"])
async def test_an_address_with_a_line_break_names_no_other_document(gateway: InProcess, path: str) -> None:
    async with connected(gateway) as client:
        refused = await client.delete(f"/v1/documents/{path}")

    assert (refused.status_code, gateway.changes) == (400, [])
    assert refused.json()["detail"] == "the address has a line break, %0A: no id of a document has one"


async def test_an_unknown_address_is_refused_with_where_to_look(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        refused = await client.get("/v2/queries")

    assert refused.status_code == 404
    assert refused.json()["detail"] == "there is no such address: /v1/openapi.json lists all"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/queries/"), ("GET", "/v1/operations/overview/"), ("GET", "/health/"), ("GET", "/operate/")],
)
async def test_an_address_with_a_slash_too_many_leads_nowhere_else(gateway: InProcess, method: str, path: str) -> None:
    body = {"text": TEXTS[0]} if method == "POST" else None
    async with connected(gateway, operations=ScriptedOperations()) as client:
        reply = await client.request(method, path, json=body)

    assert (reply.status_code, reply.headers.get("location")) == (404, None)
    assert "/v1/openapi.json" in reply.json()["detail"]


async def test_pages_may_have_parameters_of_their_own(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        assert (await client.get("/?q=Antrag")).status_code == 200


async def test_who_hangs_up_before_its_body_is_there_is_no_failure_of_the_server(gateway: InProcess) -> None:
    begun: dict[str, Any] = {"type": "http.request", "body": b"{", "more_body": True}
    events, sent = [{"type": "http.disconnect"}, begun], []

    async def receive() -> dict[str, Any]:
        return events.pop()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/v1/queries", "query_string": b"", "headers": headers}

    await app_of(gateway)(scope, receive, send)

    # A status of 500 comes with a traceback in the log.
    assert sent[0]["status"] == 400
    assert gateway.asked == []


async def test_a_compressed_body_is_refused_with_its_header(gateway: InProcess) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with connected(gateway) as client:
        refused = await client.post("/v1/queries", content=gzip.compress(b'{"text": "a"}'), headers=headers)

    assert refused.status_code == 415
    assert "Content-Encoding" in refused.json()["detail"]


async def test_a_door_without_its_broker_is_not_ready_and_not_dead(gateway: InProcess) -> None:
    async with connected(gateway, calls_per_minute=1) as client:
        before = [(await client.get("/health/ready")).status_code for _ in range(3)]
        gateway.hears_broker = False
        ready, live = await client.get("/health/ready"), await client.get("/health")

    assert before == [200] * 3, "probes need no token, and count for no limit"
    assert (ready.status_code, ready.json()["status"]) == (503, "the broker does not answer")
    assert live.status_code == 200


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/", "/operate"])
async def test_who_only_asks_for_headers_gets_those_of_the_page(gateway: InProcess, path: str) -> None:
    async with connected(gateway) as client:
        head, page = await client.head(path), await client.get(path)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == page.headers["content-length"]


async def test_too_much_and_too_many_are_refused_with_the_setting(gateway: InProcess) -> None:
    async with connected(gateway, max_body_mb=0.001, calls_per_minute=2) as client:
        large = await client.post("/v1/queries", json={"text": "a" * 2_000})
        replies = [await client.post("/v1/queries", json={"text": "a"}) for _ in range(3)]

    assert large.status_code == 413
    assert "FREKI_SERVE__MAX_BODY_MB" in large.json()["detail"]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 31


@pytest.mark.parametrize("tokens", [("good", "bad"), ("bad", "good"), ("good", "good")])
async def test_a_call_with_two_tokens_is_refused(gateway: InProcess, tokens: tuple[str, str]) -> None:
    headers = [("Authorization", f"Bearer {token}") for token in tokens]
    async with connected(gateway, tokens=True) as client:
        reply = await client.post("/v1/queries", json={"text": "a"}, headers=headers)

    assert (reply.status_code, reply.json()["detail"]) == (400, "authorization: it comes more than once; send it once")
    assert gateway.asked == []


@pytest.mark.parametrize("address", ["queries", "queries/stream", "answers", "judgements", "vector_stores/t/search"])
async def test_a_call_without_a_document_is_refused_before_it_is_parsed_where_it_is_as_large_as_one(
    gateway: InProcess, address: str
) -> None:
    async with connected(gateway) as client:
        reply = await client.post(f"/v1/{address}", content=b"[" * 16_000_001, headers=JSON)

    assert (reply.status_code, "16000000 bytes" in reply.json()["detail"]) == (413, True)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * 20_000 + b"1]",
        b'{"text": "a", "filters": [' + b"{}," * 20_000 + b"{}]}",
        b"{" + b",".join(b'"%d": 1' % number for number in range(20_000)) + b"}",
        b'{"text": "' + b'\\"' * 100 + b'", "principals": [' + b"1," * 20_000 + b"1]}",
        b'"' * 40_002,
    ],
)
async def test_a_call_without_a_document_has_so_many_values(gateway: InProcess, body: bytes) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", content=body, headers=JSON)

    assert (reply.status_code, "at most 20000 values" in reply.json()["detail"]) == (413, True)


async def test_values_are_counted_in_utf_8_alone(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", content='{"text": "∢"}'.encode("utf-16"), headers=JSON)

    assert (reply.status_code, "UTF-8" in reply.json()["detail"]) == (422, True)


@pytest.mark.parametrize("text", ["😀" * 1_000_000, '[{,":\\' * 100_000, '"' * 1_000_000])
async def test_the_longest_text_is_taken_however_it_is_escaped(gateway: InProcess, text: str) -> None:
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", content=json.dumps({"text": text}), headers=JSON)

    assert reply.status_code == 200
    assert gateway.asked[0].text == text


async def test_how_large_a_query_may_be_follows_its_longest_text(gateway: InProcess) -> None:
    sizes = QuerySizes(max_query_chars=10)
    body = json.dumps({"text": "😀" * 400_000})
    async with connected(gateway, sizes=sizes) as client:
        refused = await client.post("/v1/queries", content=body, headers=JSON)
        sizes.max_query_chars = 400_000
        taken = await client.post("/v1/queries", content=body, headers=JSON)

    assert (refused.status_code, taken.status_code) == (413, 200)
    assert "FREKI_RETRIEVAL__MAX_QUERY_CHARS" in refused.json()["detail"]


async def test_a_query_may_have_all_filters_and_a_document_any_number_of_values(gateway: InProcess) -> None:
    filters = [{"field": "name", "operator": "IN", "values": ["a"] * 256}] * 32
    async with connected(gateway) as client:
        query = await client.post("/v1/queries", json={"text": "a", "filters": filters})
        principals = [str(number) for number in range(20_000)]
        document = {"document_id": "a", "content": "a" * 17_000_000, "principals": principals}
        published = await client.post("/v1/documents", json=document)

    assert (query.status_code, published.status_code) == (200, 200)


@pytest.mark.parametrize("address", ["queries", "documents", "vector_stores/t/search"])
async def test_no_body_of_a_stranger_is_parsed(gateway: InProcess, address: str) -> None:
    headers = {"Content-Type": "application/json"}
    async with connected(gateway, tokens=True, failures_per_minute=2) as client:
        replies = [await client.post(f"/v1/{address}", content=b"no JSON", headers=headers) for _ in range(3)]

    assert [reply.status_code for reply in replies] == [401, 401, 429]


async def test_who_tries_tokens_is_stopped_by_address_and_each_refused_one_is_told(gateway: InProcess) -> None:
    told: list[tuple[str, str]] = []

    async def on_refused(reason: RefusalReason, address: str) -> None:
        told.append((reason, address))

    app = app_of(gateway, tokens=True, on_refused=on_refused, failures_per_minute=3)

    async def call(address: str, token: str | None) -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8780") as client:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return await client.post("/v1/queries", json={"text": "a"}, headers=headers)

    guesses = [await call(f"2001:db8::{number}", f"guess {number}") for number in range(2)]
    guesses += [await call("2001:db8::9", None), await call("2001:db8::9", "another guess")]
    stopped = await call("2001:db8::1", "good")
    others = [await call(address, "good") for address in ("2001:db8:0:1::1", "10.0.0.1")]

    assert [reply.status_code for reply in guesses] == [401, 401, 401, 429]
    assert [address for _, address in told] == ["2001:db8::0", "2001:db8::1"]
    assert stopped.status_code == 429
    assert 1 <= int(stopped.headers["retry-after"]) <= 20
    assert [reply.status_code for reply in others] == [200, 200]


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "::/64"),
        ("2001:db8:0:1:2::3", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_what_counts_as_one_client(address: str, client: str) -> None:
    assert network_of(address) == client


async def test_a_query_beyond_the_limit_of_its_tenant_is_told_when_to_come_again(gateway: InProcess) -> None:
    gateway.ends = ResultStatus.EXPIRED
    gateway.ends_at = LIMIT
    async with connected(gateway) as client:
        reply = await client.post("/v1/queries", json={"text": "a"})

    assert reply.status_code == 429
    assert 1 <= int(reply.headers["retry-after"]) <= 60


async def test_limits_that_change_count_for_the_next_call(gateway: InProcess) -> None:
    app = app_of(gateway)
    async with calling(app) as client:

        async def status(host: str = "127.0.0.1") -> int:
            return (await client.post("/v1/queries", json={"text": "a"}, headers={"host": host})).status_code

        before = [await status(), await status("freki.example.org")]
        app.state.guard.take_over(ServeSettings(allowed_hosts=("freki.example.org",), calls_per_minute=1))
        after = [await status("freki.example.org"), await status()]

    assert before == [200, 421]
    assert after == [200, 429]


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
        app_of(gateway, **given)


def test_a_server_on_all_addresses_names_its_hosts(gateway: InProcess) -> None:
    with pytest.raises(Misconfigured, match="ALLOWED_HOSTS"):
        app_of(gateway, tokens=True, host="::")


def test_a_certificate_comes_with_its_key() -> None:
    with pytest.raises(ValueError, match="FREKI_SERVE__KEY_FILE"):
        ServeSettings(cert_file=Path("a.pem"))


async def test_the_page_comes_with_a_policy_that_lets_no_other_script_run(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        for path in ("/", "/static/page.js", "/static/page.css", "/static/icon.svg"):
            reply = await client.get(path)
            assert reply.status_code == 200
            assert "script-src 'self'" in reply.headers["content-security-policy"]
        assert "innerHTML" not in (await client.get("/static/page.js")).text


async def test_the_description_names_every_option_of_a_query(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        described = (await client.get("/v1/openapi.json")).json()

    question = described["components"]["schemas"]["Question"]["properties"]
    assert {"text", "top_k", "filters", "deadline_ms", "explain"} <= question.keys()
    assert "query_id" not in question
    assert {"/v1/queries", "/v1/documents", "/v1/documents/{document_id}", "/v1/judgements"} <= described[
        "paths"
    ].keys()


async def test_the_description_says_what_comes(gateway: InProcess) -> None:
    async with connected(gateway) as client:
        described = (await client.get("/v1/openapi.json")).json()
        replies = {
            ("/v1/queries", "post"): [
                await client.post("/v1/queries", json={"text": TEXTS[0]}),
                await client.post("/v1/queries", json={"text": TEXTS[0], "top_k": "x"}),
                await client.post("/v1/queries", json={"text": ""}),
            ],
            ("/v1/documents", "post"): [
                await client.post("/v1/documents", json={"document_id": "a", "content": "Text"}),
                await client.post("/v1/documents?wait_ms=0", json={"document_id": "a", "content": "Text"}),
            ],
            ("/v1/answers", "post"): [await client.post("/v1/answers", json={"text": TEXTS[0]})],
            ("/v1/queries/stream", "post"): [await client.post("/v1/queries/stream", json={"text": TEXTS[0]})],
        }

    for (path, method), answers in replies.items():
        said = described["paths"][path][method]["responses"]
        for answer in answers:
            content = said.get(str(answer.status_code), said["default"])["content"]
            kind = answer.headers["content-type"].partition(";")[0]
            assert list(content) == [kind], (path, answer.status_code)
            if "schema" in content[kind]:
                jsonschema.validate(answer.json(), content[kind]["schema"] | {"components": described["components"]})


async def test_questions_at_once_do_not_mix(gateway: InProcess) -> None:
    texts = TEXTS
    async with connected(gateway) as client:
        replies = await asyncio.gather(*(client.post("/v1/queries", json={"text": text}) for text in texts))

    assert [reply.json()["variants"][0] for reply in replies] == texts
