"""What an embedder gives for texts."""

from collections.abc import Sequence
from typing import NamedTuple

from freki.schemas.arrays import Floats


class Embeddings(NamedTuple):
    """Embeddings of several texts: one vector each, and what late interaction compares."""

    vectors: Floats
    """(texts, dim), rows of L2 norm 1."""
    tokens: Sequence[Floats]
    """Of each text (tokens, token_dim); no rows for an embedder without token vectors.

    Those of passages have about variance 1 per dimension. Those of queries are scaled inversely and by the weight of
    the token, so that the sum of the largest dot products of each with a passage's tokens is a mean of cosines.
    """
    distilled: Sequence[Floats]
    """Vectors that imitate those of another encoder, (fields, distilled_dim) of each text; no rows without any.

    Fields of a passage are its text and, if it has one, its heading; a query has one. Rows of passages have about
    variance 1 per dimension, those of queries length 1.
    """


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
    distilled: Floats
    """(distilled_dim,); no numbers for an embedder without distilled vectors."""

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.vector.nbytes + self.tokens.nbytes + self.distilled.nbytes
