"""How far the scores of hits tell that something answers the question."""

from freki.schemas import Confidence

SURE_PROBABILITY = 0.5
SURE_SIMILARITY = 0.5
"""Of a sure hit: 99 of 100 queries that a corpus answers have such a hit, and 1 of 4 other queries."""


def confidence_of(
    probability: float | None, similarity: float, *, least_probability: float, least_similarity: float
) -> Confidence:
    """Judge the best hits of a query.

    probability: of the hit that the reranker is surest of, None if its scores are no probabilities; similarity: of the
    nearest hit, 0 as any two texts and 1 as question and answer. Below both limits nothing answers the question, as far
    as scores tell; docs/queries.md has how often that is wrong.
    """
    if similarity >= SURE_SIMILARITY or (probability is not None and probability >= SURE_PROBABILITY):
        return Confidence.HIGH
    below = similarity < least_similarity and (probability is None or probability < least_probability)
    return Confidence.NONE if below else Confidence.LOW
