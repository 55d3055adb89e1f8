"""How far the scores of hits tell that something answers the query."""

from freki.schemas import Confidence

SURE_PROBABILITY = 0.5
SURE_SIMILARITY = 0.5
"""Of a sure hit: 99 of 100 queries that a corpus answers have such a hit, and 1 of 4 other queries."""


def confidence_of(
    probability: float | None,
    similarity: float,
    *,
    is_calibrated: bool,
    least_probability: float,
    least_similarity: float,
) -> Confidence:
    """Judge the best hits of a query.

    probability: of the hit that the reranker is surest of, None if its scores are no probabilities; is_calibrated:
    whether they mean what they say; similarity: of the nearest hit, 0 as any two texts and 1 as query and answer.
    Below both limits nothing answers the query, as far as scores tell; docs/queries.md has how often that is wrong.
    Without a calibrated probability, the similarity must also be below that of a sure hit.
    """
    is_unlikely = (
        probability is not None and probability < least_probability if is_calibrated else similarity < SURE_SIMILARITY
    )
    if is_unlikely and similarity < least_similarity and (probability or 0.0) < SURE_PROBABILITY:
        return Confidence.NONE
    is_sure = similarity >= SURE_SIMILARITY or (probability is not None and probability >= SURE_PROBABILITY)
    return Confidence.HIGH if is_sure else Confidence.LOW
