"""Embeddings of the chunks of a slice: copied from the store, cached, or computed by a model."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

import numpy as np
from cachetools import LRUCache
from opentelemetry.trace import Tracer

from freki.schemas import ChunkId, ContextualChunk, RootId, Timestamp
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import PassageEmbedding
from freki.schemas.index import StoredRow
from freki.streams.ingest.index.pieces import Piece, Slice
from freki.streams.ingest.index.records import EmbedCounts, cache_key
from freki.streams.ingest.late_chunking import embed_each
from freki.streams.observe import attributes
from freki.streams.observe.tracing import Attributes, step
from freki.streams.ports import ChunkRows, Embedder, EmbeddingCacheKey, Vectors

REVISIONS = 1024
"""Maximum revisions whose counts are kept until their last part, which another process may get."""

PieceChunk = tuple[Piece, ContextualChunk]


class ChunkVectors:
    """Source of embedded chunks that embeds each text once, and counts embedded chunks per revision."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        cache: Vectors,
        rows: ChunkRows,
        now: Callable[[], Timestamp],
        tracer: Tracer,
    ) -> None:
        self.embedder = embedder
        self._cache = cache
        self._rows = rows
        self._now = now
        self._tracer = tracer
        self._tallies: MutableMapping[tuple[RootId, int], EmbedCounts] = LRUCache(REVISIONS)

    def fits(self, row: StoredRow, chunk: ContextualChunk) -> bool:
        """Return whether a row's vector equals that of the chunk: same embedder and context."""
        embedder = self.embedder.of(chunk.chunk.kind)
        return row.embedder == embedder.fingerprint and row.context_key == chunk.context_key

    def take_tally(self, piece: Piece) -> EmbedCounts:
        """Return and reset the counts of a revision."""
        return self._tallies.pop((piece.root_id, piece.revision.version), EmbedCounts())

    async def of_slice(self, piece_slice: Slice) -> dict[ChunkId, PassageEmbedding]:
        """Embed all chunks that get a row."""
        copied = await self._copied(piece_slice)
        # A source row may have been deleted meanwhile, or have another context.
        lost = {chunk_id: chunk for chunk_id, chunk in piece_slice.to_copy.items() if chunk_id not in copied}
        return copied | await self.of_chunks({**piece_slice.to_embed, **lost})

    async def of_chunks(self, chunks: Mapping[ChunkId, PieceChunk]) -> dict[ChunkId, PassageEmbedding]:
        """Return the embeddings of chunks from the cache or a model."""
        keys = {
            chunk_id: cache_key(piece, chunk, embedder=self.embedder.of(chunk.chunk.kind).fingerprint)
            for chunk_id, (piece, chunk) in chunks.items()
        }
        passages = dict(self._cache.among(keys.values()))
        unknown: dict[EmbeddingCacheKey, PieceChunk] = {}
        for chunk_id, key in keys.items():
            if key not in passages:
                unknown.setdefault(key, chunks[chunk_id])
        for embedder, share in self._by_embedder(unknown):
            new = dict(zip(share, await self._embed(embedder, list(share.values())), strict=True))
            self._cache.keep(new)
            passages.update(new)
        embedded_at = self._now()
        for piece, chunk in unknown.values():
            tally = self._tallies.setdefault((piece.root_id, piece.revision.version), EmbedCounts())
            tally.embedded += 1
            tally.tokens += chunk.chunk.tokens
            tally.embedded_at = embedded_at
        return {chunk_id: passages[key] for chunk_id, key in keys.items()}

    def matrix(self, passages: Sequence[PassageEmbedding]) -> Floats:
        """Stack the vectors of passages, (passages, dim); there may be none."""
        return np.array([each.vector for each in passages], np.float32).reshape(-1, self.embedder.dim)

    async def _copied(self, piece_slice: Slice) -> dict[ChunkId, PassageEmbedding]:
        if not piece_slice.to_copy:
            return {}
        stored = await self._rows.fetch(list(piece_slice.sources.values()))
        copied = {}
        for chunk_id, row_id in piece_slice.sources.items():
            if row_id not in stored:
                continue
            row, vector = stored[row_id]
            # The id of a chunk covers its text.
            if chunk_id not in piece_slice.exact or row.context == piece_slice.to_copy[chunk_id][1].context:
                copied[chunk_id] = PassageEmbedding(vector, row.match_code)
        return copied

    def _by_embedder(
        self, chunks: Mapping[EmbeddingCacheKey, PieceChunk]
    ) -> Iterator[tuple[Embedder, dict[EmbeddingCacheKey, PieceChunk]]]:
        """Group chunks by the embedder of their kind."""
        shares: defaultdict[str, dict[EmbeddingCacheKey, PieceChunk]] = defaultdict(dict)
        embedders: dict[str, Embedder] = {}
        for key, (piece, chunk) in chunks.items():
            embedder = self.embedder.of(chunk.chunk.kind)
            embedders[embedder.fingerprint] = embedder
            shares[embedder.fingerprint][key] = (piece, chunk)
        return ((embedders[fingerprint], share) for fingerprint, share in shares.items())

    async def _embed(self, embedder: Embedder, chunks: Sequence[PieceChunk]) -> list[PassageEmbedding]:
        tokens = sum(chunk.chunk.tokens for _, chunk in chunks)

        def described() -> Attributes:
            return {
                attributes.FREKI_ITEMS: len(chunks),
                attributes.EMBEDDING_MODEL_NAME: embedder.fingerprint,
                attributes.LLM_TOKEN_COUNT_PROMPT: tokens,
                attributes.GEN_AI_OPERATION_NAME: "embeddings",
                attributes.GEN_AI_REQUEST_MODEL: embedder.fingerprint,
                attributes.GEN_AI_USAGE_INPUT_TOKENS: tokens,
                attributes.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: embedder.dim,
            }

        with step(self._tracer, "embed", described, kind=attributes.EMBEDDING):
            return await embed_each(embedder, [piece.embeddable(chunk) for piece, chunk in chunks])
