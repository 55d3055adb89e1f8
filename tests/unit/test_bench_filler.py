"""The fake model that fills a store as the default one does."""

from collections.abc import Sequence

import numpy as np

from bench.pipeline.filler import SizedEmbedder
from freki.operators.late_interaction import match_codes

TOKEN, TEXT = 32, 128
"""Characters of a token vector and of a distilled vector, as docs/reranker.md states them."""


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


async def test_codes_are_as_long_as_those_of_the_default_model() -> None:
    embedder = SizedEmbedder(384, words)

    found = await embedder.embed_passages(["Antrag stellen", "Frist\nDrei Monate nach dem Bescheid"], ["", "Frist"])

    without_heading, with_heading = match_codes(found)
    assert len(without_heading) == 2 * TOKEN + len("|") + TEXT
    assert len(with_heading) == 6 * TOKEN + len("~|") + 2 * TEXT
    assert found.vectors.shape == (2, 384)
    assert np.concatenate(found.tokens).std() > 0.9
