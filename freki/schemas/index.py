"""What the store holds of a document: roots, manifest pages and chunk rows; and how it is searched.

docs/commit-protocol.md says how several workers write these without ever overwriting each other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, NewType

from freki.schemas.context_query import Filter
from freki.schemas.names import ChunkId, ChunkKind, DocumentId, RootId, TenantId, Timestamp, record

Attempt = NewType("Attempt", str)
"""One attempt of one worker to write (a part of) a revision; unique, and a later one of the same clock sorts later."""
RowId = NewType("RowId", str)
"""Primary key of a chunk row: the chunk and the attempt that wrote it. A row is written once and never changed."""
PageId = NewType("PageId", str)
"""Primary key of a manifest page: document, version, part and the attempt that wrote it."""
CommitId = NewType("CommitId", str)
"""Primary key of a root: document, version, edition and attempt."""


class Rank(NamedTuple):
    """Order of the revisions of a document, whoever wrote them when: the highest one that is committed counts."""

    version: int
    deleted: bool
    """A deletion wins over its own version."""
    edition: int
    begun: Attempt
    """The oldest attempt that wrote a part of it."""
    attempt: Attempt
    """The one that committed it."""


@record
class IndexedChunk:
    """A chunk row: what depends on the chunk's content. Its vector travels beside it."""

    row_id: RowId
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
    """Of the revision that wrote the row, as `edition`; later ones may keep it."""
    edition: int
    embedder: str
    """Fingerprint of the model that made the vector."""
    metadata_hash: str
    """Fingerprint of the fields that can change while the content stays: who may read it, attributes, analyser."""
    context_key: str = ""
    """As that of the contextual chunk."""


@record
class StoredRow:
    """As much of a chunk row as tells whether it, or its vector, can be used again."""

    row_id: RowId
    chunk_id: ChunkId
    kind: ChunkKind
    embedder: str
    metadata_hash: str
    context_key: str = ""


@record
class RowHead:
    """A chunk row and who wrote it."""

    row_id: RowId
    version: int
    edition: int


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
    row_id: RowId
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
    """Part `part` of the ordered list of live chunks of one revision, as one attempt wrote it; never changed."""

    root_id: RootId
    version: int
    edition: int
    attempt: Attempt
    part: int
    cut: str
    """Fingerprint of how the revision was cut: only parts of one cut make a revision."""
    entries: tuple[ManifestEntry, ...]

    @property
    def page_id(self) -> PageId:
        """Its primary key."""
        return page_id(self.root_id, self.version, self.part, self.attempt)


@record
class PageHead:
    """A manifest page without positions."""

    page_id: PageId
    version: int
    edition: int
    attempt: Attempt
    part: int
    cut: str
    checked: bool
    """Was the base of its rows still the newest revision after it was written? Only then may a root name it."""
    row_ids: tuple[RowId, ...]


class Place(NamedTuple):
    """Where the manifest of a document names a chunk."""

    page_id: PageId
    row_id: RowId


@record
class Root:
    """The row that commits a revision of a document. There may be several: `standing` says which one counts."""

    root_id: RootId
    tenant: TenantId
    document_id: DocumentId
    version: int
    edition: int = 0
    """Grows where chunks of a version get better contexts, or rows that were lost are written again."""
    attempt: Attempt
    deleted: bool
    """Kept without content for a while, so that a late event cannot raise the dead."""
    pages: tuple[PageId, ...]
    """The manifest, in reading order; empty where deleted."""
    chunks: int
    content_hash: str
    metadata_hash: str
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
    """What was recorded before that is gone, whatever its version; 0 where versions say all."""

    @property
    def rank(self) -> Rank:
        """Its place among the roots of its document."""
        begun = min(map(attempt_of_page, self.pages), default=self.attempt)
        return Rank(self.version, self.deleted, self.edition, begun, self.attempt)

    @property
    def commit_id(self) -> CommitId:
        """Its primary key."""
        state = "deleted" if self.deleted else str(self.edition)
        return CommitId(f"{self.root_id}:{self.version}:{state}:{self.attempt}")


def row_id(chunk_id: ChunkId, attempt: Attempt) -> RowId:
    """Name the row of a chunk that an attempt writes."""
    return RowId(f"{chunk_id}-{attempt}")


def attempt_of_row(row_id: RowId) -> Attempt:
    """Return the attempt that wrote a row."""
    return Attempt(row_id.rpartition("-")[2])


def page_id(root_id: RootId, version: int, part: int, attempt: Attempt) -> PageId:
    """Name a manifest page."""
    return PageId(f"{root_id}:{version}:{part}:{attempt}")


def attempt_of_page(page_id: PageId) -> Attempt:
    """Return the attempt that wrote a manifest page."""
    return Attempt(page_id.rpartition(":")[2])


def standing(roots: Iterable[Root]) -> Root | None:
    """Choose the root of a document that counts: the same one, in whatever order they were written.

    That is the one of the highest rank. A live one that was recorded before a tombstone of its document is given back
    as deleted at its version. None where there is no root.
    """
    every = list(roots)
    if not every:
        return None
    highest = max(every, key=lambda root: root.rank)
    tombstoned_at = max(root.tombstoned_at for root in every)
    if not highest.deleted and highest.recorded_at < tombstoned_at:
        return deleted(highest, tombstoned_at=tombstoned_at)
    return replace(highest, tombstoned_at=tombstoned_at)


def deleted(root: Root, *, tombstoned_at: Timestamp) -> Root:
    """Keep of a root what fences late events and who may know of it, and nothing of its content."""
    return replace(
        root,
        deleted=True,
        edition=0,
        pages=(),
        chunks=0,
        content_hash="",
        metadata_hash="",
        chunker="",
        embedder="",
        name="",
        media_type="",
        language="und",
        source_uri=None,
        attributes={},
        characters=0,
        tombstoned_at=tombstoned_at,
    )


@record
class Watermark:
    """How far one partition of the stream is in the index; written with the roots."""

    partition: int
    occurred_at: Timestamp
    """The latest change that is searchable."""
    committed_at: Timestamp
    commits: int = 0
    """Grows with every commit, whatever the clocks of those who commit say."""


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
