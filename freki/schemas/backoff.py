"""Exponential backoff: the one computation of waits between attempts, which infra and streams share."""

import math


def backoff(attempt: int, *, first: float, longest: float, jitter: float = 0.0) -> float:
    """Return the wait after the given attempt, 1-based, in the unit of `first` and `longest`.

    Waits double from `first` up to `longest`. jitter: 0..1, drawn again for each wait; shortens it by up to a half, so
    that processes which failed together do not retry together.
    """
    try:
        full = min(longest, math.ldexp(first, attempt - 1))
    except OverflowError:
        full = longest
    return full * (1 - jitter / 2)
