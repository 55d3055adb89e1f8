"""Fill a store with the operations of the pipeline, but without its processes and model."""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from bench.pipeline.ground import Advance, Ground
from freki.infra.claims import ClaimStore
from freki.infra.milvus.index import MilvusIndex
from freki.infra.models.build import read_heads
from freki.infra.models.fake import FakeEmbedder, bags_of
from freki.infra.models.tokens import CountTokens
from freki.infra.models.vectors import VectorCache
from freki.infra.models.weights import bundled_path
from freki.operators.analyse_text import ANALYSER, analyse_text
from freki.operators.identify import root_id
from freki.schemas import ChunkBatch, ChunkId, ContextualChunkBatch, DocumentChange, RootId
from freki.schemas.arrays import Floats
from freki.schemas.avro import Codec
from freki.schemas.embeddings import Embeddings
from freki.streams.ingest.chunk import Chunker
from freki.streams.ingest.contextualise import contextualise
from freki.streams.ingest.index import Indexer, IndexRules, ReceivedPart
from freki.streams.ingest.outline import Outliner
from freki.streams.wire.from_settings import wall_clock
from freki.training.heads import FILE
from tests.received import received

TOGETHER = 16
"""Number of parts per call of the indexer; exceeded by at most one document."""


class SizedEmbedder(FakeEmbedder):
    """A fake model whose chunks take as much space as those of the default model, with random token vectors."""

    def __init__(self, dim: int, count_tokens: CountTokens) -> None:
        """Create a model; count_tokens: of the default model."""
        super().__init__(dim)
        passages = read_heads(bundled_path(FILE)).passages
        self._token_dim, self._distilled_dim = len(passages.shift), len(passages.bias)
        self._count = count_tokens
        self._rng = np.random.default_rng(0)

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:
        """Embed passages; headings: the beginning of each text that is its heading."""
        own = [heading or "" for _, heading in zip_longest(texts, headings)]
        return Embeddings(
            bags_of(texts, self.dim),
            [self._random(number, self._token_dim) for number in self._count(texts)],
            [self._random(2 if heading else 1, self._distilled_dim) for heading in own],
            headings=self._count(own),
        )

    def _random(self, rows: int, dim: int) -> Floats:
        return self._rng.standard_normal((rows, dim), dtype=np.float32)


class Filler:
    """Writer of corpus documents to a store, as the pipeline does, with vectors of a fake model."""

    def __init__(self, ground: Ground, index: MilvusIndex, embedder: FakeEmbedder, outline: Outliner) -> None:
        settings = ground.settings
        self.index = index
        self.embedder = embedder
        self._ingest = Chunker(
            claims=ClaimStore(settings.claims),
            outliner=outline,
            part_chunks=settings.chunking.part_chunks,
            now=wall_clock,
        )
        self._indexer = Indexer(
            IndexRules(
                generation=settings.milvus.generation,
                analyse_text=analyse_text,
                analyser=ANALYSER,
                slice_tokens=settings.ingest.slice_tokens,
            ),
            store=index,
            embedder=embedder,
            vectors=VectorCache("", 0),
            now=wall_clock,
        )
        self._documents = Codec(DocumentChange)
        self._chunks = Codec(ChunkBatch)
        self._contextual_chunks = Codec(ContextualChunkBatch)
        self._rest = ground.corpus.documents()
        self.documents = 0
        self.chunk_ids: list[ChunkId] = []
        """Ids of all chunk rows in the store, in the order of writing."""
        self.root_ids: list[RootId] = []
        """Ids of all documents in the store, in the order of writing."""
        self.topic_bytes: Counter[str] = Counter()
        """Bytes that the documents would take on each topic."""

    async def fill(self, chunks: int, advance: Advance) -> float:
        """Index documents until the store holds this many chunks; return the seconds spent indexing."""
        spent = 0.0
        while (held := len(self.chunk_ids)) < chunks:
            parts: list[ReceivedPart] = []
            while len(self.chunk_ids) < chunks and len(parts) < TOGETHER:
                parts += await self._parts(next(self._rest))
            started = time.perf_counter()
            async for _ in self._indexer.index(parts):
                pass
            spent += time.perf_counter() - started
            advance(len(self.chunk_ids) - held)
        return spent

    async def _parts(self, change: DocumentChange) -> list[ReceivedPart]:
        batches = await self._ingest.revise(received(change, wall_clock()))
        contextual = [contextualise(batch) for batch in batches]
        self.documents += 1
        self.root_ids.append(root_id(change.tenant, change.document_id))
        self.chunk_ids += [chunk.chunk_id for batch in batches for chunk in batch.chunks]
        self.topic_bytes["documents"] += len(self._documents.encode(change))
        self.topic_bytes["chunks"] += sum(map(len, map(self._chunks.encode, batches)))
        self.topic_bytes["contextual-chunks"] += sum(map(len, map(self._contextual_chunks.encode, contextual)))
        return [ReceivedPart(batch, 0) for batch in contextual]
