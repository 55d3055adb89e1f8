"""What the reranker that comes with Freki says of known pairs, in both of its ways."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from freki.infra.models import OnnxReranker, check_models
from freki.infra.settings import ModelSettings
from freki.schemas.index import RerankPair

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
# As scored by version 1: who sees other numbers has another model, or other weights.
CANONICAL = {
    "de": [0.0211, 0.1154, 0.0115, 0.0017],
    "en": [0.001, 0.0288, 0.1369, 0.0268],
}
TOLERANCE = 0.02


def pairs_of(query: str, texts: list[str], language: str) -> list[RerankPair]:
    return [
        RerankPair(
            query=query,
            query_language=language,
            heading="",
            text=text,
            language=language,
            fused=0.5,
            lexical=0.5,
            cosine=0.85,
        )
        for text in texts
    ]


@pytest_asyncio.fixture(scope="module")
async def reranker() -> AsyncIterator[OnnxReranker]:
    """Open the default."""
    async with OnnxReranker(ModelSettings()) as opened:
        yield opened


@pytest.mark.parametrize(("language", "asked"), [("de", GERMAN), ("en", ENGLISH)])
async def test_the_answer_scores_highest(
    reranker: OnnxReranker, language: str, asked: tuple[str, list[str], int]
) -> None:
    query, texts, right = asked

    scores = await reranker.score(pairs_of(query, texts, language), budget_s=None)

    assert max(range(len(texts)), key=lambda place: scores[place] or 0) == right


@pytest.mark.parametrize(("language", "asked"), [("de", GERMAN), ("en", ENGLISH)])
async def test_known_pairs_have_their_canonical_scores(
    reranker: OnnxReranker, language: str, asked: tuple[str, list[str], int]
) -> None:
    query, texts, _ = asked

    scores = await reranker.score(pairs_of(query, texts, language), budget_s=None)

    assert scores == pytest.approx(CANONICAL[language], abs=TOLERANCE)


async def test_the_models_that_are_on_by_default_check_out() -> None:
    checks = await check_models(ModelSettings())

    assert [(check.name, check.ok) for check in checks] == [("multilingual-e5-small", True), ("freki-reranker-1", True)]
