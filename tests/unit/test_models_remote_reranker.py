from collections.abc import Iterator
from typing import Any

import pytest

from freki.infra.rerankers.remote import CALL_TEXTS, RemoteReranker
from freki.infra.settings import RemoteRerankerSettings
from freki.schemas.errors import Busy, InfraError, Misconfigured, Rejected, Unavailable
from tests.ranking_server import RankingServer, a_ranking_server, cohere, tei
from tests.scripted_server import Reply
from tests.unit.rerank_pairs import paired


@pytest.fixture
def service() -> Iterator[RankingServer]:
    """Run a service for one test."""
    with a_ranking_server(tei) as service:
        yield service


def settings(service: RankingServer, **changes: Any) -> RemoteRerankerSettings:
    return RemoteRerankerSettings.model_validate({"url": service.url, "timeout_s": 30, **changes})


async def test_scores_come_back_in_the_order_of_the_pairs(service: RankingServer) -> None:
    pairs = [("a", "x" * 30), ("b", "x" * 10), ("a", "x" * 50), ("b", "x" * 40)]

    async with RemoteReranker(settings(service)) as reranker:
        scores = await reranker.score(paired(pairs), budget_s=None)

    assert scores == [0.3, 0.1, 0.5, 0.4]


async def test_a_query_is_asked_once_with_all_its_texts(service: RankingServer) -> None:
    pairs = [("a", "one"), ("b", "two"), ("a", "three")]

    async with RemoteReranker(settings(service)) as reranker:
        await reranker.score(paired(pairs), budget_s=None)

    asked = {body["query"]: body for _, _, body in service.requests}
    assert {path for path, _, _ in service.requests} == {"/rerank"}
    assert len(service.requests) == 2
    assert asked["a"] == {"query": "a", "texts": ["one", "three"], "raw_scores": False, "truncate": True}


async def test_no_call_holds_more_texts_than_a_service_takes(service: RankingServer) -> None:
    pairs = [("a", "x" * (index % 90)) for index in range(2 * CALL_TEXTS + 5)]

    async with RemoteReranker(settings(service)) as reranker:
        scores = await reranker.score(paired(pairs), budget_s=None)

    assert sorted(len(body["texts"]) for _, _, body in service.requests) == [5, CALL_TEXTS, CALL_TEXTS]
    assert scores == [len(text) / 100 for _, text in pairs]


async def test_no_pairs_ask_nothing(service: RankingServer) -> None:
    async with RemoteReranker(settings(service)) as reranker:
        assert await reranker.score([], budget_s=None) == []

    assert service.requests == []


async def test_a_token_is_sent_as_bearer(service: RankingServer) -> None:
    async with RemoteReranker(settings(service, token="secret", url=f"{service.url}/")) as reranker:  # noqa: S106
        await reranker.score(paired([("a", "b")]), budget_s=None)

    assert service.requests[0][:2] == ("/rerank", "Bearer secret")


async def test_what_came_within_the_budget_counts_and_the_rest_is_none(service: RankingServer) -> None:
    service.hang_on("slow")

    async with RemoteReranker(settings(service)) as reranker:
        scores = await reranker.score(paired([("slow", "x"), ("fast", "x" * 20)]), budget_s=2.0)

    assert scores == [None, 0.2]


async def test_without_time_nothing_is_scored(service: RankingServer) -> None:
    async with RemoteReranker(settings(service)) as reranker:
        assert await reranker.score(paired([("a", "b")]), budget_s=0) == [None]


async def test_a_service_that_is_too_slow_may_be_there_later(service: RankingServer) -> None:
    service.hang_on("slow")

    async with RemoteReranker(settings(service, timeout_s=1)) as reranker:
        with pytest.raises(Unavailable, match="does not answer: ReadTimeout"):
            await reranker.score(paired([("slow", "x")]), budget_s=None)


async def test_a_service_that_is_not_there_may_be_there_later() -> None:
    async with RemoteReranker(RemoteRerankerSettings(url="http://127.0.0.1:9")) as reranker:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9/rerank does not answer"):
            await reranker.score(paired([("a", "b")]), budget_s=None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Rejected),
        (401, Misconfigured),
        (403, Misconfigured),
        (404, Misconfigured),
        (408, Unavailable),
        (413, Rejected),
        (422, Rejected),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_an_error_of_the_service_becomes_ours_with_its_words(
    service: RankingServer, status: int, kind: type[InfraError]
) -> None:
    service.script = lambda _: Reply({"error": "model is overloaded"}, status)

    async with RemoteReranker(settings(service)) as reranker:
        with pytest.raises(kind, match=f"answered {status}: .*model is overloaded") as raised:
            await reranker.score(paired([("a", "b")]), budget_s=None)

    assert type(raised.value) is kind


async def test_an_error_with_a_charset_that_decodes_nothing_is_still_told(service: RankingServer) -> None:
    service.script = lambda _: Reply(b"overloaded", 503, {"Content-Type": "text/plain; charset=undefined"})

    async with RemoteReranker(settings(service)) as reranker:
        with pytest.raises(Unavailable, match="answered 503: overloaded"):
            await reranker.score(paired([("a", "b")]), budget_s=None)


@pytest.mark.parametrize(
    "reply",
    [
        {"results": []},
        [{"index": 0, "score": 7.5}],
        [{"index": 0, "score": None}],
        [{"index": 0, "score": 0.5}],
        [{"index": 0, "score": 0.5}, {"index": 2, "score": 0.5}],
        [{"index": 0, "score": float("nan")}, {"index": 1, "score": 0.5}],
        "hello",
        b"<html>Welcome to the proxy</html>",
    ],
    ids=[
        "another interface",
        "a logit",
        "no number",
        "a text is missing",
        "an index too far",
        "not a number",
        "no list",
        "no JSON",
    ],
)
async def test_a_reply_that_is_no_ranking_is_refused(service: RankingServer, reply: Any) -> None:
    service.script = lambda _: Reply(reply)

    async with RemoteReranker(settings(service)) as reranker:
        with pytest.raises(Rejected):
            await reranker.score(paired([("a", "b"), ("a", "c")]), budget_s=None)


def test_a_service_must_be_named() -> None:
    with pytest.raises(Misconfigured, match="FREKI_REMOTE_RERANKER__URL"):
        RemoteReranker(RemoteRerankerSettings())


async def test_a_service_that_says_when_to_come_again_is_understood(service: RankingServer) -> None:
    service.script = lambda _: Reply({"message": "slow down"}, 429, {"Retry-After": "17"})

    async with RemoteReranker(settings(service)) as reranker:
        with pytest.raises(Busy) as raised:
            await reranker.score(paired([("a", "b")]), budget_s=None)

    assert raised.value.wait_s == 17


async def test_scores_that_are_log_odds_become_probabilities(service: RankingServer) -> None:
    service.script = lambda _: Reply([{"index": 1, "score": 0.0}, {"index": 0, "score": -900.0}])

    async with RemoteReranker(settings(service, raw_scores=True)) as reranker:
        assert await reranker.score(paired([("a", "b"), ("a", "c")]), budget_s=None) == [0.0, 0.5]

    async with RemoteReranker(settings(service)) as reranker:
        with pytest.raises(Rejected, match="FREKI_REMOTE_RERANKER__RAW_SCORES=true"):
            await reranker.score(paired([("a", "b"), ("a", "c")]), budget_s=None)


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_services_that_do_as_cohere_does_are_asked_in_their_way(service: RankingServer, version: str) -> None:
    service.script = cohere
    asked = settings(service, url=f"{service.url}/{version}/", interface="cohere", model="rerank-v3.5", token="t")  # noqa: S106

    async with RemoteReranker(asked) as reranker:
        scores = await reranker.score(paired([("a", "x" * 30), ("a", "x" * 50)]), budget_s=None)

    assert scores == [0.3, 0.5]
    assert service.requests == [
        (
            f"/{version}/rerank",
            "Bearer t",
            {"model": "rerank-v3.5", "query": "a", "documents": ["x" * 30, "x" * 50], "top_n": 2},
        )
    ]


@pytest.mark.parametrize(
    "reply",
    [
        [{"index": 0, "score": 0.5}],
        {"results": [{"index": 0, "relevance_score": 0.5}]},
        {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.4}]},
        {"results": [{"index": 0, "relevance_score": None}, {"index": 1, "relevance_score": 0.4}]},
    ],
    ids=["another interface", "a text is missing", "a text comes twice", "no number"],
)
async def test_a_reply_that_is_not_coheres_is_refused(service: RankingServer, reply: Any) -> None:
    service.script = lambda _: Reply(reply)

    async with RemoteReranker(settings(service, interface="cohere", model="m")) as reranker:
        with pytest.raises(Rejected):
            await reranker.score(paired([("a", "b"), ("a", "c")]), budget_s=None)


def test_cohere_needs_a_model() -> None:
    with pytest.raises(Misconfigured, match="FREKI_REMOTE_RERANKER__MODEL"):
        RemoteReranker(RemoteRerankerSettings(url="http://127.0.0.1:9", interface="cohere"))
