"""A set of texts that may be as large as the whole index."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

_LATEST = 4096
"""Texts that are added one by one before they are merged."""


class HashSet:
    """Set of texts that holds hashes of 64 bits, about 12 bytes each: a set of such numbers takes eight times as much.

    Two of a million texts have the same hash with a probability of 3e-8: one that was never added then seems to be in.
    """

    def __init__(self) -> None:
        """Create an empty set."""
        self._sorted = np.empty(0, np.uint64)
        self._latest: set[int] = set()

    def __contains__(self, text: object) -> bool:
        """Return whether a text was added."""
        hashed = _hash(str(text))
        place = int(np.searchsorted(self._sorted, np.uint64(hashed)))
        return hashed in self._latest or (place < len(self._sorted) and int(self._sorted[place]) == hashed)

    def update(self, texts: Iterable[str]) -> None:
        """Add texts."""
        self._latest.update(map(_hash, texts))
        # A share of the whole, so that there are few merges.
        if len(self._latest) > max(_LATEST, len(self._sorted) // 16):
            latest = np.fromiter(self._latest, np.uint64, len(self._latest))
            self._sorted = np.sort(np.concatenate([self._sorted, latest]))
            self._latest.clear()


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
