import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freki.infra.rerankers.vertex import CALL_RECORDS, TOKEN_LIFE_S, VertexReranker
from freki.infra.settings import VertexRerankerSettings
from freki.schemas.errors import Busy, InfraError, Misconfigured, Rejected, Unavailable
from tests.ranking_server import RankingServer, a_ranking_server, vertex
from tests.scripted_server import Reply
from tests.unit.rerank_pairs import pair, paired


@pytest.fixture
def service() -> Iterator[RankingServer]:
    """Run a service for one test."""
    with a_ranking_server(vertex) as service:
        yield service


def settings(service: RankingServer, **changes: Any) -> VertexRerankerSettings:
    return VertexRerankerSettings.model_validate(
        {"url": service.url, "project": "p1", "token": "secret", "timeout_s": 30, **changes}
    )


async def test_a_configuration_is_asked_as_the_documentation_says(service: RankingServer) -> None:
    asked = [pair("a", "x" * 30, heading="§ 1"), pair("a", "x" * 50)]

    async with VertexReranker(settings(service, location="eu", model="semantic-ranker-512@latest")) as reranker:
        scores = await reranker.score(asked, budget_s=None)

    assert scores == [0.3, 0.5]
    assert service.requests == [
        (
            "/v1/projects/p1/locations/eu/rankingConfigs/default_ranking_config:rank",
            "Bearer secret",
            {
                "model": "semantic-ranker-512@latest",
                "query": "a",
                "records": [
                    {"id": "0", "title": "§ 1", "content": "x" * 30},
                    {"id": "1", "title": "", "content": "x" * 50},
                ],
                "ignoreRecordDetailsInResponse": True,
            },
        )
    ]


async def test_no_call_holds_more_records_than_the_service_takes(service: RankingServer) -> None:
    async with VertexReranker(settings(service)) as reranker:
        scores = await reranker.score(paired([("a", "x")] * (CALL_RECORDS + 3)), budget_s=None)

    assert sorted(len(body["records"]) for _, _, body in service.requests) == [3, CALL_RECORDS]
    assert set(scores) == {0.01}


async def test_a_score_that_is_left_out_is_0(service: RankingServer) -> None:
    service.script = lambda _: Reply({"records": [{"id": "1", "score": 0.2}, {"id": "0"}]})

    async with VertexReranker(settings(service)) as reranker:
        assert await reranker.score(paired([("a", "b"), ("a", "c")]), budget_s=None) == [0.0, 0.2]


async def test_what_came_within_the_budget_counts_and_the_rest_is_none(service: RankingServer) -> None:
    service.hang_on("slow")

    async with VertexReranker(settings(service)) as reranker:
        assert await reranker.score(paired([("slow", "x"), ("fast", "x" * 20)]), budget_s=2.0) == [None, 0.2]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Rejected), (403, Misconfigured), (404, Misconfigured), (429, Unavailable), (503, Unavailable)],
)
async def test_an_error_of_the_service_becomes_ours_with_its_words(
    service: RankingServer, status: int, kind: type[InfraError]
) -> None:
    service.script = lambda _: Reply({"error": {"message": "quota exceeded"}}, status)

    async with VertexReranker(settings(service)) as reranker:
        with pytest.raises(kind, match=f"answered {status}: .*quota exceeded") as raised:
            await reranker.score(paired([("a", "b")]), budget_s=None)

    assert type(raised.value) is kind


async def test_a_service_that_says_when_to_come_again_is_understood(service: RankingServer) -> None:
    service.script = lambda _: Reply({}, 429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})

    async with VertexReranker(settings(service)) as reranker:
        with pytest.raises(Busy) as raised:
            await reranker.score(paired([("a", "b")]), budget_s=None)

    assert raised.value.wait_s == 0


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"records": [{"id": "0", "score": 0.5}]},
        {"records": [{"id": "0", "score": 0.5}, {"id": "7", "score": 0.5}]},
        {"records": [{"id": "0", "score": 0.5}, {"id": "one", "score": 0.5}]},
        {"records": [{"id": "0", "score": 7.5}, {"id": "1", "score": 0.5}]},
        {"records": [{"id": "0", "score": float("nan")}, {"id": "1", "score": 0.5}]},
        b"{",
    ],
    ids=["nothing", "one is missing", "an id too far", "an id of its own", "no share", "not a number", "cut off"],
)
async def test_a_reply_that_is_no_ranking_is_refused(service: RankingServer, reply: Any) -> None:
    service.script = lambda _: Reply(reply)

    async with VertexReranker(settings(service)) as reranker:
        with pytest.raises(Rejected):
            await reranker.score(paired([("a", "b"), ("a", "c")]), budget_s=None)


async def test_a_token_of_a_file_is_read_again_after_a_while_or_once_it_is_refused(
    service: RankingServer, tmp_path: Path
) -> None:
    file, now = tmp_path / "token", [0.0]
    asked = settings(service, token=None, token_file=file)

    async with VertexReranker(asked, clock=lambda: now[0]) as reranker:
        for token, later_s in (("one", 0.0), ("two", 1.0), ("three", TOKEN_LIFE_S)):
            file.write_text(f"{token}\n")
            now[0] += later_s
            await reranker.score(paired([("a", "b")]), budget_s=None)
        file.write_text("four")
        service.script = lambda body: Reply({}, 401) if service.requests[-1][1] != "Bearer four" else vertex(body)
        await reranker.score(paired([("a", "b")]), budget_s=None)

    tokens = [token for _, token, _ in service.requests]
    assert tokens == [f"Bearer {each}" for each in ("one", "one", "three", "three", "four")]


async def test_a_command_prints_a_token(service: RankingServer) -> None:
    command = shlex.join([sys.executable, "-c", "print('printed')"])

    async with VertexReranker(settings(service, token=None, token_command=command)) as reranker:
        await reranker.score(paired([("a", "b")]), budget_s=None)

    assert service.requests[0][1] == "Bearer printed"


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({}, Misconfigured, "TOKEN, __TOKEN_FILE or __TOKEN_COMMAND"),
        ({"token_file": "/nonexistent/token"}, Misconfigured, "TOKEN_FILE=/nonexistent/token cannot be read"),
        ({"token_command": "/nonexistent/gcloud"}, Misconfigured, "TOKEN_COMMAND=/nonexistent/gcloud cannot be run"),
        ({"token_command": "false"}, Unavailable, "TOKEN_COMMAND=false ended with 1"),
        ({"token_command": "true"}, Unavailable, "TOKEN_COMMAND=true ended with 0"),
        ({"token": "wrong"}, Misconfigured, "answered 401"),
    ],
)
async def test_without_a_token_the_setting_is_named(
    service: RankingServer, changes: dict[str, Any], kind: type[InfraError], message: str
) -> None:
    service.script = lambda _: Reply({}, 401)

    async with VertexReranker(settings(service, **{"token": None, **changes})) as reranker:
        with pytest.raises(kind, match=message):
            await reranker.score(paired([("a", "b")]), budget_s=None)


def test_a_project_must_be_named() -> None:
    with pytest.raises(Misconfigured, match="FREKI_VERTEX_RERANKER__PROJECT"):
        VertexReranker(VertexRerankerSettings())
