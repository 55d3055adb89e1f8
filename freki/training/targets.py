"""Which candidates of a question are shown, and in which order they should come."""

import numpy as np
from numpy.typing import NDArray

from freki.infra.models.e5s1 import Floats
from freki.training.material import Collection
from freki.training.mining import Candidates
from freki.training.teachers import Vectors

SHOWN = 12
"""Candidates of a question at a time."""
_HARD = 6
_HARD_AMONG = 14
"""So many of those shown are among the best that do not answer."""
_SHARPNESS = 1.5
_BONUS = 3.0
"""Added to the logarithm of the answer's share: the label counts more than the teachers."""
_OF_DENSE = 0.7
_OF_TITLES = 0.5
_FEW = 3
_TINY = 1e-9


def teachers_scores(collection: Collection, found: Candidates, first: Vectors, second: Vectors | None) -> Floats:
    """Score the candidates of each question by what hybrid search and the teachers say, (questions, candidates).

    Each row has mean 0 and standard deviation 1. A title that is closer than its text counts instead of the text.
    """
    titled = collection.title_of[found.places] >= 0
    nearest = np.where(titled, np.maximum(found.cosines, _title_cosines(collection, found, first)), found.cosines)
    if second is None:
        return _standardised(_standardised(found.fused) + _OF_DENSE * _standardised(nearest))
    return _standardised(
        _standardised(found.fused)
        + _standardised(_cosines(second.questions, second.documents, found.places))
        + _OF_TITLES * _standardised_among(_title_cosines(collection, found, second), titled)
        + _OF_TITLES * _standardised(nearest)
    )


def order_of(scores: Floats, answer: int) -> Floats:
    """Turn the teachers' scores of the candidates shown into the probabilities that the student should give them.

    scores: (candidates,); answer: place of the one that is labelled as right, which is lifted above its score.
    """
    lifted = _SHARPNESS * scores.astype(np.float64)
    lifted[answer] += _BONUS
    shares = np.exp(lifted - lifted.max())
    probabilities: Floats = (shares / shares.sum()).astype(np.float32)
    return probabilities


def shown(rng: np.random.Generator, answer: int, *, width: int, count: int = SHOWN) -> NDArray[np.intp]:
    """Choose `count` among `width` candidates, given best first: the answer, then hard ones, then any; each once."""
    rest = np.delete(np.arange(width), answer)
    hard = rng.permutation(rest[:_HARD_AMONG])[: min(_HARD, count - 1)]
    others = rng.permutation(np.setdiff1d(rest, hard))[: count - 1 - len(hard)]
    return np.concatenate([[answer], hard, others])


def _title_cosines(collection: Collection, found: Candidates, vectors: Vectors) -> Floats:
    """Compare questions with titles; what stands where there is no title means nothing."""
    if not collection.titles:
        return np.zeros_like(found.cosines)
    return _cosines(vectors.questions, vectors.titles, collection.title_of[found.places])


def _cosines(questions: Floats, rows: Floats, places: NDArray[np.integer]) -> Floats:
    """Compare each question with some rows; places: (questions, candidates)."""
    # Question by question: all rows at once would fill the memory.
    return np.stack([rows[at] @ question for question, at in zip(questions, places, strict=True)])


def _standardised(values: Floats) -> Floats:
    """Give each row mean 0 and standard deviation 1."""
    return _standardised_among(values, np.ones(values.shape, np.bool_), few=1)


def _standardised_among(values: Floats, among: NDArray[np.bool_], *, few: int = _FEW) -> Floats:
    """Do so for some values of each row, unless they are too few; all others become 0."""
    count = among.sum(axis=1, keepdims=True).clip(min=1)
    centred = np.where(among, values - np.where(among, values, 0).sum(axis=1, keepdims=True) / count, 0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    scaled: Floats = np.where(count >= few, centred / (spread + _TINY), 0).astype(np.float32)
    return scaled
