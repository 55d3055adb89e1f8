"""Scores of dense search in the metric that a query asks for."""

import math

from freki.schemas import Metric


def in_metric(cosine: float, metric: Metric) -> float:
    """Express the cosine of two vectors of length 1; higher is nearer in every metric.

    Their dot product is the cosine, and their Euclidean distance sqrt(2 - 2 cosine), of which this is the negative.
    Both grow with the cosine: the order of a ranking is the same in all three.
    """
    return -math.sqrt(max(0.0, 2 - 2 * cosine)) if metric is Metric.EUCLIDEAN else cosine


def least_in(metric: Metric) -> float:
    """Return the least score that two vectors of length 1 can have: that of opposite ones."""
    return in_metric(-1.0, metric)
