"""Deviations of an open model from the expected outputs in its manifest."""

from typing import NamedTuple

import numpy as np

from freki.infra.models.embedder import OnnxEmbedder
from freki.infra.models.manifest import Expected
from freki.infra.models.reranker import OnnxReranker
from freki.schemas.index import RerankPair

SHOWN_CHARACTERS = 60
"""Characters of a text that a message quotes."""


class Deviation(NamedTuple):
    """Distance of the output for a text from the expected one."""

    text: str
    distance: float
    """Cosine distance of vectors, 0..2, or difference of scores, 0..1; NaN where the output is not a number."""


async def vector_deviations(embedder: OnnxEmbedder, expected: Expected) -> list[Deviation]:
    """Embed the texts, those of a role together, in batches with padding."""
    found = []
    for role, embed in (("query", embedder.embed_queries), ("passage", embedder.embed_passages)):
        checks = [each for each in expected.vectors if each.role == role]
        vectors = (await embed([each.text for each in checks])).vectors if checks else ()
        for each, vector in zip(checks, vectors, strict=True):
            cosine = float(np.asarray(vector, np.float64) @ np.asarray(each.vector, np.float64))
            found.append(Deviation(each.text, abs(1 - cosine)))
    return found


async def score_deviations(reranker: OnnxReranker, expected: Expected) -> list[Deviation]:
    """Score the pairs, in batches with padding."""
    pairs = [RerankPair(query=each.query, heading="", text=each.text) for each in expected.scores]
    scores = await reranker.score(pairs, budget_s=None)
    return [
        Deviation(f"{each.query} | {each.text}", abs((np.nan if score is None else score) - each.score))
        for each, score in zip(expected.scores, scores, strict=True)
    ]


def worst_of(deviations: list[Deviation]) -> Deviation:
    """Return the largest deviation; NaN counts as the largest."""
    return max(deviations, key=lambda each: np.inf if np.isnan(each.distance) else each.distance)


def is_within(deviation: Deviation, tolerance: float) -> bool:
    """Return whether a deviation is allowed; NaN is not."""
    return deviation.distance <= tolerance


def shown(text: str) -> str:
    """Return a text as a message quotes it."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…")
