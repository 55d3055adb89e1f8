"""Input and output of search and of reranking."""

from freki.schemas.context_query import Filter
from freki.schemas.names import ChunkId, RootId, TenantId, record


@record
class RerankPair:
    """A question and a candidate, with what search knows of the two."""

    query: str
    query_language: str
    heading: str
    """The innermost one above the text; empty where there is none."""
    text: str
    """As it was embedded: after the line that says where it stands."""
    language: str
    """Of the text."""
    fused: float
    """Score of hybrid search, 0..1 within its ranking."""
    lexical: float
    """Score of BM25 as a share of the best candidate's; 0 where BM25 did not find it."""
    cosine: float
    """Of the vectors of question and text."""
    asker: tuple[str, ...] = ()
    """Tenant and principals of who asks."""
    readers: tuple[str, ...] = ()
    """Tenant of the text, and who may read it."""


@record
class Scope:
    """What a search may see: the one place where tenant and access are decided. Default deny."""

    tenant: TenantId
    principals: tuple[str, ...]
    levels: tuple[int, ...]
    filters: tuple[Filter, ...]


@record
class Candidate:
    """A chunk that a retriever found."""

    chunk_id: ChunkId
    root_id: RootId
    score: float
    """Cosine similarity, or BM25; higher is better; comparable within one ranking."""
