"""A cache of the vectors of passages."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from cachetools import LRUCache

from freki.infra.telemetry.calls import Calls
from freki.schemas.arrays import Floats

_ENTRY_BYTES = 512
"""Estimated overhead per entry."""


EmbeddingCacheKey = tuple[str, ...]
"""Tenant, then everything that determines the vector: an embedded text, or a span of a window."""


class VectorCache:
    """LRU cache of vectors, bounded in bytes; 0 disables it. Not thread-safe.

    Entries are separate per tenant: the time of embedding must not reveal texts of others. Texts are stored as hashes
    only, in memory.
    """

    def __init__(self, fingerprint: str, most_bytes: int, calls: Calls | None = None) -> None:
        self._model = blake2b(fingerprint.encode(), digest_size=16).digest()
        self._calls = calls or Calls()
        self._vectors: LRUCache[bytes, Floats] = LRUCache(most_bytes, getsizeof=_size)

    def among(self, passages: Iterable[EmbeddingCacheKey]) -> dict[EmbeddingCacheKey, Floats]:
        """Return the cached vectors of these passages."""
        looked_up = {passage: self._vectors.get(self._key(passage)) for passage in passages}
        found = {passage: vector for passage, vector in looked_up.items() if vector is not None}
        self._calls.looked_up("passages", hits=len(found), misses=len(looked_up) - len(found))
        return found

    def keep(self, vectors: Mapping[EmbeddingCacheKey, Floats]) -> None:
        """Store vectors, evicting the least recently used ones."""
        for passage, vector in vectors.items():
            if _size(vector) <= self._vectors.maxsize:
                # Copy: a view would keep the whole matrix in memory.
                self._vectors[self._key(passage)] = vector.copy()
        self._calls.holds("passages", int(self._vectors.currsize))

    def _key(self, made: EmbeddingCacheKey) -> bytes:
        # Lengths delimit the parts.
        parts = (part.encode() for part in made)
        content = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return blake2b(content, digest_size=16, key=self._model).digest()


def _size(vector: Floats) -> int:
    return vector.nbytes + _ENTRY_BYTES
