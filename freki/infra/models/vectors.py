"""Remembers the vectors of passages."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from cachetools import LRUCache

from freki.infra.telemetry.calls import Calls
from freki.schemas.arrays import Floats

_ENTRY_BYTES = 512
"""About what an entry takes besides its numbers."""


EmbeddingCacheKey = tuple[str, ...]
"""A tenant, then all that a vector of its own is made of: a text as it is embedded, or a span of a window."""


class VectorCache:
    """The vectors that a model gave to passages of late, within a number of bytes; 0: none. For one thread.

    A tenant finds only what it put there itself: how soon a text is embedded must not tell what others hold. Texts are
    not kept, and what is kept ends with the process.
    """

    def __init__(self, fingerprint: str, most_bytes: int, calls: Calls | None = None) -> None:
        self._model = blake2b(fingerprint.encode(), digest_size=16).digest()
        self._calls = calls or Calls()
        self._vectors: LRUCache[bytes, Floats] = LRUCache(most_bytes, getsizeof=_size)

    def among(self, passages: Iterable[EmbeddingCacheKey]) -> dict[EmbeddingCacheKey, Floats]:
        """Return those of these that are remembered."""
        looked_up = {passage: self._vectors.get(self._key(passage)) for passage in passages}
        found = {passage: vector for passage, vector in looked_up.items() if vector is not None}
        self._calls.looked_up("passages", hits=len(found), misses=len(looked_up) - len(found))
        return found

    def keep(self, vectors: Mapping[EmbeddingCacheKey, Floats]) -> None:
        """Remember some, for others that were needed less recently."""
        for passage, vector in vectors.items():
            if _size(vector) <= self._vectors.maxsize:
                # A row of its own, or the whole matrix stays as long as one of its rows.
                self._vectors[self._key(passage)] = vector.copy()
        self._calls.holds("passages", int(self._vectors.currsize))

    def _key(self, made: EmbeddingCacheKey) -> bytes:
        # Lengths keep the borders between parts.
        parts = (part.encode() for part in made)
        content = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return blake2b(content, digest_size=16, key=self._model).digest()


def _size(vector: Floats) -> int:
    return vector.nbytes + _ENTRY_BYTES
