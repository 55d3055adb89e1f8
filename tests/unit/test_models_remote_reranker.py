import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from freki.infra.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.infra.remote_reranker import CALL_TEXTS, RemoteReranker
from freki.infra.settings import RemoteRerankerSettings
from tests.unit.rerank_pairs import paired

Reply = tuple[int, Any]


def by_length(body: dict[str, Any]) -> Reply:
    """Score a text by how long it is, and answer best first, as services do."""
    scores = [{"index": index, "score": len(text) / 100} for index, text in enumerate(body["texts"])]
    return 200, sorted(scores, key=lambda each: -each["score"])


class Service:
    """A ranking service on the loopback interface."""

    def __init__(self) -> None:
        self.reply: Callable[[dict[str, Any]], Reply] = by_length
        self.requests: list[tuple[str, str | None, dict[str, Any]]] = []
        self.release = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append((self.path, self.headers["Authorization"], body))
                status, content = service.reply(body)
                raw = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                # Who gave up waiting has hung up.
                with contextlib.suppress(BrokenPipeError):
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def hang_on(self, query: str) -> None:
        """Let calls with this query wait until the test is over."""

        def reply(body: dict[str, Any]) -> Reply:
            if body["query"] == query:
                self.release.wait(60)
            return by_length(body)

        self.reply = reply


@pytest.fixture
def service() -> Iterator[Service]:
    """Run a service for one test."""
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield service
    service.release.set()
    service.server.shutdown()
    thread.join()
    service.server.server_close()


def settings(service: Service, **changes: Any) -> RemoteRerankerSettings:
    return RemoteRerankerSettings.model_validate({"url": service.url, "timeout_s": 30, **changes})


async def test_scores_come_back_in_the_order_of_the_pairs(service: Service) -> None:
    pairs = [("a", "x" * 30), ("b", "x" * 10), ("a", "x" * 50), ("b", "x" * 40)]

    async with RemoteReranker(settings(service)) as reranker:
        scores = await reranker.score(paired(pairs), budget_s=None)

    assert scores == [0.3, 0.1, 0.5, 0.4]


async def test_a_query_is_asked_once_with_all_its_texts(service: Service) -> None:
    pairs = [("a", "one"), ("b", "two"), ("a", "three")]

    async with RemoteReranker(settings(service)) as reranker:
        await reranker.score(paired(pairs), budget_s=None)

    asked = {body["query"]: body for _, _, body in service.requests}
    assert {path for path, _, _ in service.requests} == {"/rerank"}
    assert len(service.requests) == 2
    assert asked["a"] == {"query": "a", "texts": ["one", "three"], "raw_scores": False, "truncate": True}


async def test_no_call_holds_more_texts_than_a_service_takes(service: Service) -> None:
    pairs = [("a", "x" * (index % 90)) for index in range(2 * CALL_TEXTS + 5)]

    async with RemoteReranker(settings(service)) as reranker:
        scores = await reranker.score(paired(pairs), budget_s=None)

    assert sorted(len(body["texts"]) for _, _, body in service.requests) == [5, CALL_TEXTS, CALL_TEXTS]
    assert scores == [len(text) / 100 for _, text in pairs]


async def test_no_pairs_ask_nothing(service: Service) -> None:
    async with RemoteReranker(settings(service)) as reranker:
        assert await reranker.score([], budget_s=None) == []

    assert service.requests == []


async def test_a_token_is_sent_as_bearer(service: Service) -> None:
    async with RemoteReranker(settings(service, token="secret", url=f"{service.url}/")) as reranker:  # noqa: S106
        await reranker.score(paired([("a", "b")]), budget_s=None)

    assert service.requests[0][:2] == ("/rerank", "Bearer secret")


async def test_what_came_within_the_budget_counts_and_the_rest_is_none(service: Service) -> None:
    service.hang_on("slow")

    async with RemoteReranker(settings(service)) as reranker:
        scores = await reranker.score(paired([("slow", "x"), ("fast", "x" * 20)]), budget_s=2.0)

    assert scores == [None, 0.2]


async def test_without_time_nothing_is_scored(service: Service) -> None:
    async with RemoteReranker(settings(service)) as reranker:
        assert await reranker.score(paired([("a", "b")]), budget_s=0) == [None]


async def test_a_service_that_is_too_slow_may_be_there_later(service: Service) -> None:
    service.hang_on("slow")

    async with RemoteReranker(settings(service, timeout_s=0.2)) as reranker:
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
    service: Service, status: int, kind: type[InfraError]
) -> None:
    service.reply = lambda _: (status, {"error": "model is overloaded"})

    async with RemoteReranker(settings(service)) as reranker:
        with pytest.raises(kind, match=f"answered {status}: .*model is overloaded") as raised:
            await reranker.score(paired([("a", "b")]), budget_s=None)

    assert type(raised.value) is kind


@pytest.mark.parametrize(
    "reply",
    [
        {"results": []},
        [{"index": 0, "score": 7.5}],
        [{"index": 0, "score": None}],
        [{"index": 0, "score": 0.5}],
        [{"index": 0, "score": 0.5}, {"index": 2, "score": 0.5}],
        "hello",
    ],
    ids=["another interface", "a logit", "no number", "a text is missing", "an index too far", "no list"],
)
async def test_a_reply_that_is_no_ranking_is_refused(service: Service, reply: Any) -> None:
    service.reply = lambda _: (200, reply)

    async with RemoteReranker(settings(service)) as reranker:
        with pytest.raises(Rejected):
            await reranker.score(paired([("a", "b"), ("a", "c")]), budget_s=None)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://127.0.0.1", "http://127.0.0.1:port"])
async def test_a_url_that_is_none_is_a_mistake_in_the_settings(url: str) -> None:
    async with RemoteReranker(RemoteRerankerSettings(url=url)) as reranker:
        with pytest.raises(Misconfigured, match="FREKI_REMOTE_RERANKER__URL"):
            await reranker.score(paired([("a", "b")]), budget_s=None)


def test_a_service_must_be_named() -> None:
    with pytest.raises(Misconfigured, match="FREKI_REMOTE_RERANKER__URL"):
        RemoteReranker(RemoteRerankerSettings())
