"""Learns how fast a model works, to tell how much it can do in a given time."""

HALF_LIFE_TOKENS = 8192
"""After how many tokens a measurement counts half: a few large batches."""

LEAST_TOKENS = 256
"""Fewer tell what a call costs, not how fast it goes on."""


class Pace:
    """A running estimate of tokens per second, in which recent work counts more."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def tokens_per_s(self) -> float:
        """The estimate; 0 before anything was measured."""
        return self._tokens / self._seconds if self._seconds else 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        """Take a measurement into account; a small one only where there is no other."""
        if tokens < LEAST_TOKENS and self._seconds:
            return
        keep = 0.5 ** (tokens / HALF_LIFE_TOKENS)
        self._tokens = self._tokens * keep + tokens
        self._seconds = self._seconds * keep + seconds
