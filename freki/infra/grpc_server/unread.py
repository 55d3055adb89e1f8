"""Answers that wait for their callers. gRPC sets no time for taking one, so what waits has a limit of bytes."""

from collections import Counter
from typing import Final

MOST_UNREAD_BYTES: Final = 64_000_000
"""Most bytes of answers to one caller that wait to be taken: hundreds of usual ones."""
OPEN_STREAM_BYTES: Final = 64_000
"""What a stream counts for from its beginning: its answer may be there while a step still waits to be taken."""


class Unread:
    """Counts the bytes that wait for each caller; all services of a server share one."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()

    def refusal(self, name: str) -> str | None:
        """Return why a caller gets no further answer; None: it does."""
        if self._bytes[name] < MOST_UNREAD_BYTES:
            return None
        return f"{MOST_UNREAD_BYTES} bytes of answers wait for you: read them, or cancel their calls"

    def add(self, name: str, size: int) -> None:
        """Count an answer that is handed over."""
        self._bytes[name] += size

    def remove(self, name: str, size: int) -> None:
        """Count an answer no more: it was taken, or its call has ended."""
        self._bytes[name] -= size
        if not self._bytes[name]:
            del self._bytes[name]
