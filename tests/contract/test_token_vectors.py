"""What the default embedder's token vectors say of known questions and texts."""

from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from freki.infra.models import OnnxEmbedder, check_models
from freki.infra.settings import ModelSettings
from freki.operators.late_interaction import Similarities, match_codes, similarities
from freki.schemas.embeddings import each_query

GERMAN = (
    "Wie lange ist die Kündigungsfrist für den Mieter?",
    [
        "Die Kündigung ist spätestens am dritten Werktag eines Monats zum Ablauf des übernächsten zulässig.",
        "Kündigungsfrist\nDer Mieter kann mit einer Frist von drei Monaten kündigen.",
        "Der Vermieter hat die Mietsache in einem geeigneten Zustand zu überlassen.",
        "Die Zugspitze ist mit 2962 Metern der höchste Berg Deutschlands.",
    ],
    1,
)
ENGLISH = (
    "How do I rotate the signing key?",
    [
        "The height of the tower is 324 metres.",
        "Keys are listed under Settings. Each one has a name and a date.",
        "To replace a signing key, create a new one, sign with both for a day, then revoke the old one.",
        "Signing in requires a password of at least twelve characters.",
    ],
    2,
)


@pytest_asyncio.fixture(scope="module")
async def embedder() -> AsyncIterator[OnnxEmbedder]:
    """Open the default."""
    async with OnnxEmbedder(ModelSettings()) as opened:
        yield opened


async def similarities_of(embedder: OnnxEmbedder, question: str, texts: list[str]) -> Similarities:
    asked = await embedder.embed_queries([question])
    (query,) = each_query(asked)
    return similarities(query, match_codes(await embedder.embed_passages(texts)))


@pytest.mark.parametrize("asked", [GERMAN, ENGLISH])
async def test_the_answer_is_the_most_similar(embedder: OnnxEmbedder, asked: tuple[str, list[str], int]) -> None:
    question, texts, right = asked

    assert (await similarities_of(embedder, question, texts)).tokens.argmax() == right
    assert (await similarities_of(embedder, question, texts)).text.argmax() == right


async def test_nothing_is_more_similar_to_a_text_than_itself(embedder: OnnxEmbedder) -> None:
    texts = GERMAN[1]

    for place, text in enumerate(texts):
        found = (await similarities_of(embedder, text, texts)).tokens
        assert found.argmax() == place
        assert 0.3 < found[place] < 1.1


async def test_a_code_does_not_depend_on_the_batch(embedder: OnnxEmbedder) -> None:
    together = (await embedder.embed_passages(GERMAN[1])).tokens

    for text, tokens in zip(GERMAN[1], together, strict=True):
        (alone,) = (await embedder.embed_passages([text])).tokens
        assert np.abs(alone - tokens).max() < 1e-3


async def test_a_span_of_a_window_has_the_tokens_of_its_words(embedder: OnnxEmbedder) -> None:
    window = " ".join(GERMAN[1])
    middle = len(window) // 2

    whole, first, second = (
        await embedder.embed_within([window], [[(0, len(window)), (0, middle), (middle, len(window))]])
    ).tokens

    assert 0 < len(first) < len(whole)
    # A word that the border cuts is in both.
    assert len(whole) <= len(first) + len(second) <= len(whole) + 1


async def test_the_models_that_are_on_by_default_check_out() -> None:
    checks = await check_models(ModelSettings())

    assert [(check.name, check.ok) for check in checks] == [("multilingual-e5-small", True)]
