"""How far the scores of a hit tell that it answers the query."""

from freki.schemas import Confidence

SURE_PROBABILITY = 0.5
SURE_SIMILARITY = 1.0
"""Of a sure hit without a calibrated probability: as a question and its answer have on average."""
UNLIKELY_SIMILARITY = 0.5
"""Least without a calibrated probability: 99 of 100 queries that a corpus answers have such a hit."""
SUPPORTED_PROBABILITY = 0.1
"""Of a sure hit that has most words of the question, or is similar to it in another language."""
SUPPORTING_SHARE = 0.65
"""Least share of the question's words in such a hit: two of three."""
SUPPORTING_SIMILARITY = 0.75
"""Across languages, where words cannot agree."""
ACROSS_PROBABILITY = {"en": 0.006}
"""Least across languages, by that of the question: the reranker, whose weights differ so, expects texts to share words
with it."""
ACROSS_OTHERS = 0.0015


def least_across(language: str) -> float:
    """Return the probability below which a hit in another language than the question does not answer it."""
    return ACROSS_PROBABILITY.get(language, ACROSS_OTHERS)


def confidence_of(
    probability: float | None,
    similarity: float,
    *,
    covered: float,
    is_across: bool,
    is_calibrated: bool,
    least_probability: float,
    least_similarity: float,
) -> Confidence:
    """Judge a hit of a query.

    probability: by the reranker, None if its scores are no probabilities; is_calibrated: whether they mean what they
    say; similarity: 0 as any two texts and 1 as query and answer; covered: largest share of the query's words in
    one hit; is_across: is the hit in another language than the query? Then see `least_across`.
    Below both limits the hit does not answer the query, as far as scores tell; docs/evaluation.md has how often that
    is wrong. Without a calibrated probability, the similarity decides; with one it only supports it.
    """
    sure = 0.0 if probability is None else probability
    if not is_calibrated or probability is None:
        is_unlikely = similarity < min(least_similarity, UNLIKELY_SIMILARITY)
        is_sure = similarity >= SURE_SIMILARITY
    else:
        is_unlikely = probability < least_probability and similarity < least_similarity
        is_supported = similarity >= SUPPORTING_SIMILARITY if is_across else covered >= SUPPORTING_SHARE
        is_sure = probability >= SUPPORTED_PROBABILITY and is_supported
    if sure >= SURE_PROBABILITY or (is_sure and not is_unlikely):
        return Confidence.HIGH
    return Confidence.NONE if is_unlikely else Confidence.LOW
