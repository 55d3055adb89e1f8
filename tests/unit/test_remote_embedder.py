"""Embedders behind an address: batches, retries, addresses of the same model, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from pydantic import ValidationError

from freki.infra.models import RemoteEmbedder, check_models, embedder_identity
from freki.infra.models.remote import service
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from tests.embedding_server import DIM, EmbeddingServer, error, remote_settings, texts_of
from tests.scripted_server import Reply, serving
from tests.unit.tiny_models import word_tokenizer

TEXTS = [f"Satz {number} über das Amt" for number in range(10)]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(service, "_LONGEST_WAIT_S", 0.0)


@pytest.fixture(scope="module", autouse=True)
def _tokenizer(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Write a small tokenizer: the usual one takes seconds to open."""
    global TOKENIZER  # noqa: PLW0603 - one for all tests of this file
    TOKENIZER = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    word_tokenizer().save(str(TOKENIZER))


TOKENIZER = Path()


def settings_of(server: EmbeddingServer, **changes: Any) -> ModelSettings:
    return remote_settings(server, **{"tokenizer": TOKENIZER, **changes})


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving(EmbeddingServer()) as running:
        yield running


async def embedded(settings: ModelSettings, texts: list[str] = TEXTS, *, calls: Calls | None = None) -> np.ndarray:
    async with RemoteEmbedder(settings, calls=calls) as embedder:
        return (await embedder.embed_passages(texts)).vectors


async def test_texts_go_in_batches_and_come_back_in_order(server: EmbeddingServer) -> None:
    vectors = await embedded(settings_of(server, batch_texts=4, at_once=2))

    singles = np.vstack([await embedded(settings_of(server), [text]) for text in TEXTS])
    assert vectors == pytest.approx(singles, abs=1e-6)
    # The first is that of the start.
    assert sorted(len(body["input"]) for body in server.bodies[1:4]) == [2, 4, 4]


async def test_a_service_that_is_busy_is_asked_again(server: EmbeddingServer) -> None:
    server.replies = [error(503), error(429, **{"Retry-After": "0"})]

    assert (await embedded(settings_of(server))).shape == (10, DIM)
    assert [request.path for request in server.requests] == ["/embeddings"] * 4


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (error(503), Unavailable, "answered 503"),
        (error(401), Misconfigured, "answered 401.*FREKI_MODELS__REMOTE"),
        (error(400), Rejected, "answered 400"),
        (error(503, **{"Content-Type": "text/plain; charset=undefined"}), Unavailable, "answered 503: .*no"),
        (Reply({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}), Misconfigured, "2 numbers, not .*DIM=64"),
        (Reply({"data": [{"index": 0, "embedding": [0.0] * DIM}]}), Rejected, "vector of zeros"),
        (Reply({"data": []}), Rejected, "0 vectors for 1 texts"),
        (Reply({"vectors": []}), Misconfigured, "INTERFACE"),
        (Reply(b"<html>"), Misconfigured, "INTERFACE"),
    ],
)
async def test_what_cannot_be_used_is_named_at_the_start(
    server: EmbeddingServer, reply: Reply, kind: type[InfraError], message: str
) -> None:
    server.replies = [reply, reply]

    with pytest.raises(kind, match=message) as failed:
        await embedded(settings_of(server, attempts=2))

    assert TEXTS[0] not in str(failed.value)


async def test_another_address_of_the_same_model_takes_over(server: EmbeddingServer) -> None:
    with serving(EmbeddingServer(scale=1.0)) as second:
        async with RemoteEmbedder(settings_of(server, fallback_urls=[second.url], attempts=1)) as embedder:
            before = (await embedder.embed_passages(TEXTS)).vectors
            server.dead = True
            after = (await embedder.embed_passages(TEXTS)).vectors

    assert after == pytest.approx(before, abs=1e-6)
    assert TEXTS[0] in texts_of(second)


async def test_an_address_of_another_model_is_refused_at_the_start_with_the_reason(server: EmbeddingServer) -> None:
    reason = r"gives other vectors than .* name addresses of the same model"
    with serving(EmbeddingServer(rotated=True)) as other, pytest.raises(Misconfigured, match=reason):
        await embedded(settings_of(server, fallback_urls=[other.url]))


async def test_one_that_was_away_at_the_start_is_compared_before_it_is_used(server: EmbeddingServer) -> None:
    with serving(EmbeddingServer(rotated=True)) as other:
        other.dead = True
        settings = settings_of(server, fallback_urls=[other.url], attempts=1)
        async with RemoteEmbedder(settings) as embedder:
            other.dead, server.dead = False, True
            with pytest.raises(Unavailable):
                await embedder.embed_passages(TEXTS)

    assert TEXTS[0] not in texts_of(other)


async def test_prefixes_and_kinds_of_text_reach_the_service(server: EmbeddingServer) -> None:
    settings = settings_of(server, interface="cohere", query_prefix="query: ", passage_prefix="passage: ")
    async with RemoteEmbedder(settings) as embedder:
        await embedder.embed_queries(["Was?"])
        await embedder.embed_passages(["Das."])

    assert [(body["input_type"], body["texts"]) for body in server.bodies[1:]] == [
        ("search_query", ["query: Was?"]),
        ("search_document", ["passage: Das."]),
    ]


async def test_tokens_and_their_price_are_counted(server: EmbeddingServer) -> None:
    reader = InMemoryMetricReader()
    calls = Calls(MeterProvider(metric_readers=[reader]).get_meter("test"))

    await embedded(settings_of(server, price_per_million=20.0), calls=calls)

    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
        if metric.name in {"freki.model.tokens", "freki.model.cost"}
    }
    assert found == {"freki.model.tokens": 50, "freki.model.cost": pytest.approx(0.001)}


async def test_the_identity_is_known_without_asking_and_changes_with_the_model(server: EmbeddingServer) -> None:
    settings = settings_of(server)
    async with RemoteEmbedder(settings) as embedder:
        assert embedder_identity(settings) == (embedder.fingerprint, DIM)
        assert embedder.fingerprint.startswith("bags@1.")
    others: list[dict[str, object]] = [{"model": "other"}, {"revision": "2"}, {"passage_prefix": "p: "}, {"dim": 32}]
    identities = {embedder_identity(settings_of(server, **change))[0] for change in [{}, *others]}
    assert len(identities) == 5
    assert embedder_identity(settings_of(server, url="http://elsewhere/v1")) == embedder_identity(settings)


async def test_models_check_asks_the_service(server: EmbeddingServer) -> None:
    settings = settings_of(server).model_copy(update={"reranker": None})

    (check,) = await check_models(settings)

    assert (check.ok, check.message) == (True, "tells an answer from another text")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"embedder": "remote"}, "needs FREKI_MODELS__REMOTE__URL"),
        ({"embedder": "remote", "remote": {"url": "http://a", "dim": 8}}, "needs FREKI_MODELS__REMOTE__MODEL: set it"),
        ({"embedder": "remote", "remote": {"url": "http://a", "interface": "tei"}}, "needs FREKI_MODELS__REMOTE__DIM"),
        (
            {
                "embedder": "remote",
                "late_window_tokens": 300,
                "remote": {"url": "http://a", "model": "m", "dim": 8},
            },
            "FREKI_MODELS__LATE_WINDOW_TOKENS",
        ),
        ({"embedders": {"CODE": "remote"}}, "`remote` embeds all kinds or none"),
        (
            {
                "embedder": "remote",
                "embedders": {"CODE": "all-MiniLM-L6-v2"},
                "remote": {"url": "http://a", "model": "m", "dim": 8},
            },
            "is not possible: leave it out",
        ),
    ],
)
def test_settings_that_lack_or_contradict_something_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelSettings.model_validate(settings)
