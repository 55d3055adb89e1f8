"""Ports: minimal Protocols of everything outside that stages use.

All methods work on batches, keep order, are idempotent unless they say that keys must be new, and raise `Unavailable`
(retry later) or `Rejected` (never retry). Adapters own their timeouts.
"""

from freki.streams.ports.archive import ArchiveSink, ArchiveSource
from freki.streams.ports.models import (
    AnalyseText,
    Cache,
    Embedder,
    EmbeddingCacheKey,
    EmbedTexts,
    Llm,
    Reranker,
    StreamingLlm,
    TokenBudget,
    Vectors,
)
from freki.streams.ports.sources import (
    ClaimReader,
    Fetch,
    Ocr,
    Producer,
    QueryClient,
    Repository,
    Scanner,
    SchemaRegistry,
    TokenVerifier,
)
from freki.streams.ports.store import (
    ChunkRows,
    ChunkSearch,
    DocumentIndex,
    GenerationLog,
    IndexedDocuments,
    PortableIndex,
    ReadableRows,
    Roots,
    Store,
    WholeIndex,
)

__all__ = [
    "AnalyseText",
    "ArchiveSink",
    "ArchiveSource",
    "Cache",
    "ChunkRows",
    "ChunkSearch",
    "ClaimReader",
    "DocumentIndex",
    "EmbedTexts",
    "Embedder",
    "EmbeddingCacheKey",
    "Fetch",
    "GenerationLog",
    "IndexedDocuments",
    "Llm",
    "Ocr",
    "PortableIndex",
    "Producer",
    "QueryClient",
    "ReadableRows",
    "Repository",
    "Reranker",
    "Roots",
    "Scanner",
    "SchemaRegistry",
    "Store",
    "StreamingLlm",
    "TokenBudget",
    "TokenVerifier",
    "Vectors",
    "WholeIndex",
]
