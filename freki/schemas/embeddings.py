"""What an embedder gives for texts."""

from collections.abc import Sequence
from typing import NamedTuple

from freki.schemas.arrays import Floats


class Embeddings(NamedTuple):
    """Embeddings of several texts: one vector each, and vectors of their tokens for late interaction."""

    vectors: Floats
    """(texts, dim), rows of L2 norm 1."""
    tokens: Sequence[Floats]
    """Of each text (tokens, token_dim); no rows for an embedder without token vectors.

    Those of passages have about variance 1 per dimension. Those of queries are scaled inversely and by the weight of
    the token, so that the sum of the largest dot products of each with a passage's tokens is a mean of cosines.
    """


class PassageEmbedding(NamedTuple):
    """What is stored of an embedded passage."""

    vector: Floats
    """(dim,)"""
    token_codes: str
    """Code of its token vectors, see `operators.late_interaction`; empty without any."""

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.vector.nbytes + len(self.token_codes)


class QueryEmbedding(NamedTuple):
    """What retrieval keeps of an embedded query."""

    vector: Floats
    """(dim,)"""
    tokens: Floats
    """(tokens, token_dim), see Embeddings; no rows for an embedder without token vectors."""

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.vector.nbytes + self.tokens.nbytes
