"""Detection of rankings that probably lack a relevant hit."""

from collections.abc import Sequence

PLACE = 10


def looks_weak(scores: Sequence[float], *, least_gap: float = 0.35) -> bool:
    """Return whether the best score exceeds the tenth by less than `least_gap` of itself.

    scores: of one fused ranking, best first. With fewer than ten the last one is compared; an empty ranking is weak.
    The best predictor of bad answers among those compared in docs/queries.md.
    """
    if not scores or scores[0] <= 0:
        return True
    return (scores[0] - scores[min(PLACE, len(scores)) - 1]) / scores[0] < least_gap
