"""Estimate of the throughput of a model, to plan work within a time budget."""

HALF_LIFE_TOKENS = 8192
"""Tokens after which the weight of a measurement halves: a few large batches."""

LEAST_TOKENS = 256
"""Minimum tokens of a measurement; smaller ones measure the overhead of a call."""


class Pace:
    """An exponentially weighted estimate of tokens per second."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Estimated tokens per second; 0 before the first measurement."""
        return self._tokens / self._seconds if self._seconds else 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        """Add a measurement; a small one counts only while there is no other."""
        if tokens < LEAST_TOKENS and self._seconds:
            return
        keep = 0.5 ** (tokens / HALF_LIFE_TOKENS)
        self._tokens = self._tokens * keep + tokens
        self._seconds = self._seconds * keep + seconds
