"""Take from query vectors a share of what all queries of their language have in common, before texts are searched.

Vectors of encoders such as E5 fill a narrow cone, and a text near its axis is near to every query.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freki.schemas.arrays import Floats

SHARE = 0.5
"""Of the centre that is taken away: .3 to .7 were measured, docs/queries.md."""
LEAST_QUERIES = 50
"""Of a language: the mean of fewer is much of what these ask about."""


class Centred(NamedTuple):
    """Query vectors that are searched for."""

    vectors: Floats
    """(queries, dim), of length 1."""
    lengths: NDArray[np.float64]
    """Their lengths before, (queries,)."""
    shifts: NDArray[np.float64]
    """(queries,), see `score`."""

    def score(self, place: int, cosine: float) -> float:
        """Return the score of a text by its cosine with a vector: on the scale of cosines of whole vectors."""
        return min(1.0, float(self.lengths[place]) * cosine + float(self.shifts[place]))


def query_centres(vectors: Floats, languages: Sequence[str]) -> Mapping[str, Floats]:
    """Return the mean, (dim,), of the vectors of queries, (queries, dim), in each language that enough of them have."""
    of = np.array(languages)
    return {
        language: vectors[of == language].mean(axis=0)
        for language, count in Counter(languages).items()
        if count >= LEAST_QUERIES
    }


def centre_queries(vectors: Floats, centres: Sequence[Floats | None]) -> Centred:
    """Take a share of its centre from each vector, (queries, dim); null: it stays as it is.

    Source: Mu and Viswanath, All-but-the-Top, ICLR 2018, arXiv:1702.01417. Deviation: only queries, so that stored
    vectors stay as they are, and not the whole of the mean.
    """
    sought, lengths, shifts = vectors.copy(), np.ones(len(vectors)), np.zeros(len(vectors))
    for place, centre in enumerate(centres):
        if centre is not None:
            left = vectors[place] - SHARE * centre
            lengths[place] = np.linalg.norm(left)
            sought[place] = left / lengths[place]
            # A text has about as much of the centre as the mean query has.
            shifts[place] = SHARE * float(centre @ centre)
    return Centred(sought, lengths, shifts)
