"""Duration of lookups by the number of queries that are looked up at once."""

_SHARE = 1 / 8
"""Weight of the latest value; earlier ones fade."""
# As estimates of steps do: one lookup that was slow refuses no others, and what lasts is learnt within a few values.
_MAX_TIMES = 4.0
_MAX_S = 0.01
_RIDGE = 0.1
"""Ridge in squared queries: without recent values of different numbers of queries, the line becomes flat again."""


class Load:
    """Regression line through recent durations, never falling, with bounded values.

    It is flat until different numbers of queries were seen, so that a first burst is admitted and learnt from.
    """

    def __init__(self) -> None:
        self._weight = 0.0
        self._at_once = 0.0
        self._seconds = 0.0
        self._variance = 0.0
        self._covariance = 0.0

    def learn(self, at_once: int, seconds: float) -> None:
        """Learn the duration of a lookup with so many queries at once."""
        if self._weight == 1 and seconds < self._seconds:
            # In ascending order: a slow first value, of a worker that has just started, is bounded, too.
            first = round(self._at_once), self._seconds
            self._weight = 0.0
            self._add(at_once, seconds)
            at_once, seconds = first
        self._add(at_once, seconds)

    def _add(self, at_once: int, seconds: float) -> None:
        # Moving moments: West, CACM 1979, doi:10.1145/359146.359153, with weights that fade.
        if self._weight:
            # More at once than before may take as long as one after the other.
            most_s = max(_MAX_TIMES, at_once / self._at_once) * self.expected_s(at_once)
            seconds = min(seconds, max(most_s, _MAX_S))
        share = max(_SHARE, 1 / (1 + self._weight))
        self._weight = min(self._weight + 1, 1 / _SHARE)
        more, longer = at_once - self._at_once, seconds - self._seconds
        self._at_once += share * more
        self._seconds += share * longer
        self._variance = (1 - share) * (self._variance + share * more * more)
        self._covariance = (1 - share) * (self._covariance + share * more * longer)

    def expected_s(self, at_once: int) -> float:
        """Return the expected seconds with so many queries at once; 0 before the first value."""
        slope = self._covariance / (self._variance + _RIDGE)
        return max(0.0, self._seconds + max(0.0, slope) * (at_once - self._at_once))
