"""What the store holds of a document: root, manifest and chunk rows; and how it is searched."""

from collections.abc import Mapping

from freki.schemas.context_query import Filter
from freki.schemas.names import ChunkId, ChunkKind, DocumentId, RootId, TenantId, Timestamp, record


@record
class IndexedChunk:
    """A chunk row: what depends on the chunk's content. Its vector travels beside it."""

    chunk_id: ChunkId
    root_id: RootId
    tenant: TenantId
    document_id: DocumentId
    level: int
    kind: ChunkKind
    language: str
    heading_path: tuple[str, ...]
    text: str
    context: str
    lexical: str
    """The analysed terms of context and text, separated by spaces, which BM25 counts."""
    tokens: int
    name: str
    media_type: str
    principals: tuple[str, ...]
    attributes: Mapping[str, str]
    version: int
    """Of the revision that wrote the row first."""
    embedder: str
    """Fingerprint of the model that made the vector."""
    facets: str
    """Fingerprint of the fields that can change while the content stays: who may read it, attributes, analyser."""
    context_key: str = ""
    """As that of the contextual chunk."""


@record
class KnownChunk:
    """As much of a chunk row as tells whether it can be kept."""

    chunk_id: ChunkId
    kind: ChunkKind
    embedder: str
    facets: str
    context_key: str = ""


@record
class Passage:
    """As much of a chunk row as is shown around a hit, and the words that situate it."""

    text: str
    heading_path: tuple[str, ...] = ()
    context: str = ""
    context_key: str = ""

    @property
    def heading(self) -> str:
        """The innermost one above it; empty where there is none."""
        return self.heading_path[-1] if self.heading_path else ""


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
class ManifestEntry:
    """Where a live chunk stands in its revision: what depends on position."""

    chunk_id: ChunkId
    path: str
    ordinal: int
    start: int
    end: int
    overlap: str
    first_page: int = 0
    last_page: int = 0
    """As those of the chunk."""


@record
class ManifestPage:
    """Part `part` of the ordered list of live chunks of one revision."""

    root_id: RootId
    version: int
    part: int
    entries: tuple[ManifestEntry, ...]


@record
class Root:
    """The one row that says what is live of a document; writing it is the commit."""

    root_id: RootId
    tenant: TenantId
    document_id: DocumentId
    version: int
    deleted: bool
    """Kept without content for a while, so that a late event cannot raise the dead."""
    parts: int
    """Manifest pages of this version; 0 where deleted."""
    chunks: int
    content_hash: str
    facets: str
    chunker: str
    embedder: str
    name: str
    media_type: str
    language: str
    source_uri: str | None
    principals: tuple[str, ...]
    attributes: Mapping[str, str]
    characters: int
    occurred_at: Timestamp
    recorded_at: Timestamp
    received_at: Timestamp
    searchable_at: Timestamp
    tombstoned_at: Timestamp = Timestamp(0)
    """Of a deleted one: what was recorded before that is gone, whatever its version; 0 where versions say all."""


@record
class Watermark:
    """How far one partition of the stream is in the index; written with the roots."""

    partition: int
    occurred_at: Timestamp
    """The latest change that is searchable."""
    committed_at: Timestamp


@record
class Apart:
    """An embedder that only some kinds of chunks have, which stand apart for it."""

    kinds: tuple[ChunkKind, ...]
    embedder: str
    dim: int


@record
class Generation:
    """What an index was made with; another value of any of these needs another index."""

    name: str
    embedder: str
    """Of all kinds that have none of their own."""
    dim: int
    analyser: str
    apart: tuple[Apart, ...] = ()
    """A row of vectors has a block of numbers for each embedder, this one's after that of `embedder`, in this order."""

    @property
    def width(self) -> int:
        """Length of a row of vectors."""
        return self.dim + sum(each.dim for each in self.apart)


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


@record
class Statistics:
    """How much an index holds."""

    documents: int
    """Live ones."""
    deleted: int
    """Deletions that are still remembered."""
    chunks: int
    """Chunk rows, of live revisions or not yet swept."""
