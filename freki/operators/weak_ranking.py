"""Detection of rankings that probably lack a relevant hit."""

from collections.abc import Sequence

PLACE = 10
LEAST_GAP = 0.35


def looks_weak(scores: Sequence[float]) -> bool:
    """Return whether the best score exceeds the tenth by less than `LEAST_GAP` of itself.

    scores: of one fused ranking, best first. With fewer than ten the last one is compared; an empty ranking is weak.
    The best predictor of bad answers among those compared in docs/queries.md.
    """
    if not scores or scores[0] <= 0:
        return True
    return (scores[0] - scores[min(PLACE, len(scores)) - 1]) / scores[0] < LEAST_GAP
