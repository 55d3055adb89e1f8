"""A cache of embedded passages."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from cachetools import LRUCache

from freki.infra.telemetry.calls import Calls
from freki.schemas.embeddings import PassageEmbedding

_ENTRY_BYTES = 512
"""Estimated overhead per entry."""


EmbeddingCacheKey = tuple[str, ...]
"""Tenant, then everything that determines the embedding: an embedded text, or a span of a window."""


class VectorCache:
    """LRU cache of embedded passages, bounded in bytes; 0 disables it. Not thread-safe.

    Entries are separate per tenant: the time of embedding must not reveal texts of others. Texts are stored as hashes
    only, in memory.
    """

    def __init__(self, fingerprint: str, most_bytes: int, calls: Calls | None = None) -> None:
        self._model = blake2b(fingerprint.encode(), digest_size=16).digest()
        self._calls = calls or Calls()
        self._passages: LRUCache[bytes, PassageEmbedding] = LRUCache(most_bytes, getsizeof=_size)
        self._calls.watch("passages", self)

    @property
    def held_bytes(self) -> int:
        """Estimated size of all entries."""
        return int(self._passages.currsize)

    def among(self, passages: Iterable[EmbeddingCacheKey]) -> dict[EmbeddingCacheKey, PassageEmbedding]:
        """Return those of these passages that are cached."""
        looked_up = {passage: self._passages.get(self._key(passage)) for passage in passages}
        found = {passage: each for passage, each in looked_up.items() if each is not None}
        self._calls.looked_up("passages", hits=len(found), misses=len(looked_up) - len(found))
        return found

    def keep(self, passages: Mapping[EmbeddingCacheKey, PassageEmbedding]) -> None:
        """Store passages, evicting the least recently used ones."""
        for key, passage in passages.items():
            if _size(passage) <= self._passages.maxsize:
                # Copy: a view would keep the whole matrix in memory.
                self._passages[self._key(key)] = passage._replace(vector=passage.vector.copy())

    def _key(self, made: EmbeddingCacheKey) -> bytes:
        # Lengths delimit the parts.
        parts = (part.encode() for part in made)
        content = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return blake2b(content, digest_size=16, key=self._model).digest()


def _size(passage: PassageEmbedding) -> int:
    return passage.size + _ENTRY_BYTES
