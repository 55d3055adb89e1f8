"""Whether a ranking looks as if it had missed what was asked for."""

from collections.abc import Sequence

PLACE = 10


def looks_weak(scores: Sequence[float], *, least_gap: float = 0.35) -> bool:
    """Return whether the best score stands out too little: by less than `least_gap` of itself over the tenth.

    scores: of one fused ranking, best first. One that holds fewer is compared by its last, and an empty one is weak.
    Of the signs that were compared this one told best which answers were bad: docs/queries.md.
    """
    if not scores or scores[0] <= 0:
        return True
    return (scores[0] - scores[min(PLACE, len(scores)) - 1]) / scores[0] < least_gap
