"""How much two rankings of documents agree."""

from collections.abc import Sequence
from typing import NamedTuple

from freki.schemas import DocumentId


class Overlap(NamedTuple):
    """Agreement of two rankings of documents."""

    same_first: bool
    """Whether both have the same first document, or both none."""
    shared: float
    """Documents that both have among their first ones, as a share of those that either has; 1 where both are empty."""


def overlap(first: Sequence[DocumentId], second: Sequence[DocumentId], *, depth: int) -> Overlap:
    """Compare the first `depth` documents of two rankings, best first (Jaccard index)."""
    one, other = set(first[:depth]), set(second[:depth])
    either = one | other
    return Overlap(list(first[:1]) == list(second[:1]), len(one & other) / len(either) if either else 1.0)
