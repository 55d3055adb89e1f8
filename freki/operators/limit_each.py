"""A limit of items per group."""

from collections import Counter
from collections.abc import Hashable, Sequence


def limit_each(groups: Sequence[Hashable], *, most: int) -> list[int]:
    """Return the indices of the first `most` items of each group, in order; 0: all.

    Raises ValueError if `most` is negative.
    """
    if most < 0:
        raise ValueError(f"most must be at least 0, got {most}")
    taken: Counter[Hashable] = Counter()
    stay = []
    for place, group in enumerate(groups):
        taken[group] += 1
        if not most or taken[group] <= most:
            stay.append(place)
    return stay
