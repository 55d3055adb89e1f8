"""How long looking up takes, by how many queries do it at once."""

_SHARE = 1 / 8
"""How much the latest counts; the ones before fade."""
_RIDGE = 0.1
"""Queries squared: where different numbers at once were seen only long ago, the line becomes flat again."""


class Load:
    """A line through what was seen of late: what is busy with more takes longer, never shorter.

    Until different numbers were seen it is flat, so that a first burst is taken and learnt from.
    """

    def __init__(self) -> None:
        self._weight = 0.0
        self._at_once = 0.0
        self._seconds = 0.0
        self._variance = 0.0
        self._covariance = 0.0

    def learn(self, at_once: int, seconds: float) -> None:
        """Take into account how long it took with so many at once, itself among them."""
        # Moving moments: West, CACM 1979, doi:10.1145/359146.359153, with weights that fade.
        share = max(_SHARE, 1 / (1 + self._weight))
        self._weight = min(self._weight + 1, 1 / _SHARE)
        more, longer = at_once - self._at_once, seconds - self._seconds
        self._at_once += share * more
        self._seconds += share * longer
        self._variance = (1 - share) * (self._variance + share * more * more)
        self._covariance = (1 - share) * (self._covariance + share * more * longer)

    def expected_s(self, at_once: int) -> float:
        """Seconds that it takes with so many at once; 0 where nothing was seen yet."""
        slope = self._covariance / (self._variance + _RIDGE)
        return max(0.0, self._seconds + max(0.0, slope) * (at_once - self._at_once))
