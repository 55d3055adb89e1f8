"""No group takes all places."""

from collections import Counter
from collections.abc import Hashable, Sequence


def limit_each(groups: Sequence[Hashable], *, most: int) -> list[int]:
    """Return the places that stay, in order: of each group the first `most`. 0: all.

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
