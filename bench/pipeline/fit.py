"""Growth of a cost with the size of the index: the better least-squares fit of two laws, with intervals."""

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from freki.schemas.names import record

LEAST_POINTS = 3
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Two-sided 95 % points of Student's t with 1, 2, … degrees of freedom."""
_NORMAL_95 = 1.96


class Law(StrEnum):
    """Dependence of a value on the size n."""

    LINEAR = "a + b·n"
    LOGARITHMIC = "a + b·ln n"


@record
class Fit:
    """Fitted law, with 95 % intervals of both coefficients under the usual assumptions of least squares."""

    law: Law
    a: float
    b: float
    a_within: tuple[float, float]
    b_within: tuple[float, float]
    residual: float
    """Root mean square of the residuals, in the unit of the values."""
    largest: float
    """Largest measured size: beyond it the law is an extrapolation."""

    def at(self, size: float) -> float:
        """Return the value at a size, possibly extrapolated."""
        return self.a + self.b * _scaled(self.law, size)


def fit(sizes: Sequence[float], values: Sequence[float]) -> Fit:
    """Return the law with the smaller residual, the linear one on a tie. Raises ValueError like `fitted`."""
    return min((fitted(law, sizes, values) for law in Law), key=lambda found: found.residual)


def fitted(law: Law, sizes: Sequence[float], values: Sequence[float]) -> Fit:
    """Fit one law. Raises ValueError for fewer than 3 distinct sizes, or sizes not above 0."""
    if len(sizes) != len(values):
        raise ValueError(f"{len(sizes)} sizes, but {len(values)} values")
    if len(set(sizes)) < LEAST_POINTS or min(sizes) <= 0:
        raise ValueError(f"a fit needs {LEAST_POINTS} different sizes above 0, got {sorted(set(sizes))}")
    x = np.array([_scaled(law, size) for size in sizes])
    y = np.asarray(values, dtype=np.float64)
    spread = float(((x - x.mean()) ** 2).sum())
    b = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    a = float(y.mean()) - b * float(x.mean())
    left = float(((y - a - b * x) ** 2).sum())
    freedom = len(y) - 2
    error = math.sqrt(left / freedom)
    reach = _T_95[freedom - 1] if freedom <= len(_T_95) else _NORMAL_95
    a_off = reach * error * math.sqrt(1 / len(y) + float(x.mean()) ** 2 / spread)
    b_off = reach * error / math.sqrt(spread)
    return Fit(
        law=law,
        a=a,
        b=b,
        a_within=(a - a_off, a + a_off),
        b_within=(b - b_off, b + b_off),
        residual=math.sqrt(left / len(y)),
        largest=max(sizes),
    )


def _scaled(law: Law, size: float) -> float:
    return size if law is Law.LINEAR else math.log(size)
