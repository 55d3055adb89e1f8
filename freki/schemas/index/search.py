"""Input and output of search and of reranking."""

from freki.schemas.context_query import Filter
from freki.schemas.names import ChunkId, RootId, TenantId, record


@record
class RerankPair:
    """A query and a candidate, with the scores of search."""

    query: str
    query_language: str
    heading: str
    """Innermost heading above the text; empty where there is none."""
    text: str
    """Embedded text: breadcrumb and text of the chunk."""
    language: str
    """Language of the text."""
    fused: float
    """Score of hybrid search, 0..1 within its ranking."""
    lexical: float
    """Score of BM25 as a share of the best candidate's; 0 where BM25 did not find it."""
    cosine: float
    """Cosine similarity of the vectors of query and text."""
    asker: tuple[str, ...] = ()
    """Tenant and principals of the query."""
    readers: tuple[str, ...] = ()
    """Tenant and permitted principals of the text."""


@record
class Scope:
    """The rows that a search may see, by tenant, access rights and filters. Default deny."""

    tenant: TenantId
    principals: tuple[str, ...]
    levels: tuple[int, ...]
    filters: tuple[Filter, ...]


@record
class Candidate:
    """A chunk found by a retriever."""

    chunk_id: ChunkId
    root_id: RootId
    score: float
    """Cosine similarity, or BM25; higher is better; comparable within one ranking."""
