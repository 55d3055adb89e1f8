"""Ports: what the stages need from outside, as narrow as they need it.

All methods take and give batches, keep order, may be called again with the same arguments to the same effect,
and raise `Unavailable` (try later) or `Rejected` (never). Adapters own their timeouts.
"""

from freki.streams.ports.models import (
    AnalyseText,
    Cache,
    Embedder,
    EmbeddingCacheKey,
    Llm,
    Reranker,
    TokenBudget,
    Vectors,
)
from freki.streams.ports.sources import (
    ClaimReader,
    ClaimWriter,
    Fetch,
    Producer,
    QueryClient,
    Repository,
    SchemaRegistry,
    Trees,
)
from freki.streams.ports.store import ChunkRows, ChunkSearch, Roots, Store, WholeIndex

__all__ = [
    "AnalyseText",
    "Cache",
    "ChunkRows",
    "ChunkSearch",
    "ClaimReader",
    "ClaimWriter",
    "Embedder",
    "EmbeddingCacheKey",
    "Fetch",
    "Llm",
    "Producer",
    "QueryClient",
    "Repository",
    "Reranker",
    "Roots",
    "SchemaRegistry",
    "Store",
    "TokenBudget",
    "Trees",
    "Vectors",
    "WholeIndex",
]
