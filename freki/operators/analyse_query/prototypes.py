"""Classification of queries by labelled examples, in vector space."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from freki.schemas import QueryType
from freki.schemas.arrays import Floats

_TYPES = tuple(QueryType)
_MARGIN = 0.2
"""By which a type must exceed FACTUAL; 1 is the distance of an example to those of other types."""


class Prototypes(NamedTuple):
    """A direction for each type, in the order of QueryType."""

    centre: Floats
    """(dim,): mean of the examples, near which all vectors of such models lie."""
    directions: Floats
    """(dim, types): a direction per type."""


class LabelledQuery(NamedTuple):
    """An example query with its type and its language, ISO 639-1."""

    text: str
    query_type: QueryType
    language: str


@cache
def example_wordings() -> tuple[LabelledQuery, ...]:
    """Return the examples of all types, in German and English."""
    text = files(__package__).joinpath("data", "examples.txt").read_text("utf-8")
    parts = [part.splitlines() for part in text.split("\n[")[1:]]
    return tuple(
        LabelledQuery(line, QueryType(query_type), language)
        for heading, *lines in parts
        for query_type, language in [heading.rstrip("]").split()]
        for line in filter(None, lines)
    )


def fit_prototypes(vectors: Floats, types: Sequence[QueryType], *, ridge: float = 2.0) -> Prototypes:
    """Fit a direction per type to examples: (examples, dim) of query vectors, and their types.

    ridge: regularisation, in units of the mean square of a centred vector; higher values approach the means of the
    types. Raises ValueError where the numbers of vectors and types differ, or there are none. Source: regularised least
    squares, one type against the others (Rifkin, Yeo and Poggio, Advances in Learning Theory 2003), solved in its dual
    form.
    """
    if not len(vectors) or len(vectors) != len(types):
        raise ValueError(f"give each vector its type, got {len(vectors)} vectors and {len(types)} types")
    examples = vectors.astype(np.float64)
    centre = examples.mean(axis=0)
    centred = examples - centre
    gram = centred @ centred.T
    is_type = np.array([[each is kind for kind in _TYPES] for each in types], dtype=np.float64)
    targets = is_type - (1 - is_type) / (len(_TYPES) - 1)
    scale = max(float(np.trace(gram)) / len(gram), np.finfo(np.float64).tiny)
    duals = np.linalg.solve(gram + ridge * scale * np.eye(len(gram)), targets)
    return Prototypes(centre=centre.astype(np.float32), directions=(centred.T @ duals).astype(np.float32))


def type_by_prototypes(vector: Floats, prototypes: Prototypes) -> QueryType:
    """Return the type of a query by its vector, (dim,).

    A type must exceed FACTUAL by a margin. Ties fall to the first type.
    """
    scores = (vector - prototypes.centre) @ prototypes.directions
    scores[_TYPES.index(QueryType.FACTUAL)] += _MARGIN
    return _TYPES[int(np.argmax(scores))]
