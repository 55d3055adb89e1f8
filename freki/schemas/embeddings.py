"""What an embedder gives for texts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from freki.schemas.arrays import Floats

NO_ROWS: Floats = np.empty((0, 0), np.float32)
NO_NUMBERS: Floats = np.empty(0, np.float32)


class Embeddings(NamedTuple):
    """Embeddings of several texts: one vector each, and what late interaction compares."""

    vectors: Floats
    """(texts, dim), rows of L2 norm 1."""
    tokens: Sequence[Floats] = ()
    """Of each text (tokens, token_dim); none for an embedder without token vectors.

    Those of passages have about variance 1 per dimension. Those of queries are scaled inversely: the dot product of
    both is a cosine.
    """
    distilled: Sequence[Floats] = ()
    """Vectors that imitate those of another encoder, (fields, distilled_dim) of each text; none without any.

    Fields of a passage are its text and, if it has one, its heading; a query has one. Rows of passages have about
    variance 1 per dimension, those of queries length 1.
    """
    headings: Sequence[int] = ()
    """Number of token vectors of the heading of each passage, which are the first ones."""
    weights: Sequence[Floats] = ()
    """Weight of each token of a query, (tokens,), sum 1."""


class PassageEmbedding(NamedTuple):
    """What is stored of an embedded passage."""

    vector: Floats
    """(dim,)"""
    match_code: str
    """What late interaction compares, see `operators.late_interaction`; empty without any."""

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.vector.nbytes + len(self.match_code)


class QueryEmbedding(NamedTuple):
    """What retrieval keeps of an embedded query."""

    vector: Floats
    """(dim,)"""
    tokens: Floats
    """(tokens, token_dim), see Embeddings; no rows for an embedder without token vectors."""
    weights: Floats
    """(tokens,), sum 1"""
    distilled: Floats
    """(distilled_dim,); no numbers for an embedder without distilled vectors."""

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.vector.nbytes + self.tokens.nbytes + self.weights.nbytes + self.distilled.nbytes


def each_query(found: Embeddings) -> list[QueryEmbedding]:
    """Return the embedding of each query."""
    if not found.tokens:
        return [QueryEmbedding(vector.copy(), NO_ROWS, NO_NUMBERS, NO_NUMBERS) for vector in found.vectors]
    return [
        # A copy of the row: a view would keep the whole matrix in memory.
        QueryEmbedding(vector.copy(), tokens, weights, distilled.reshape(-1))
        for vector, tokens, weights, distilled in zip(
            found.vectors, found.tokens, found.weights, found.distilled, strict=True
        )
    ]
