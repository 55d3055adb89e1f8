"""What the chunking and contextualising stages say about one document revision."""

from collections.abc import Mapping
from enum import StrEnum

from freki.schemas.llm import LlmUse
from freki.schemas.names import ChunkId, ChunkKind, DocumentId, TenantId, Timestamp, record


class RevisionOperation(StrEnum):
    """What to do with the revision."""

    UPSERT = "UPSERT"
    DELETE = "DELETE"
    TOMBSTONE = "TOMBSTONE"
    """A bare null record: a delete that knows no version and is fenced by `recorded_at` instead."""


@record
class Revision:
    """One state of a document: all that later stages know of it but its chunks."""

    tenant: TenantId
    document_id: DocumentId
    operation: RevisionOperation
    version: int
    """As the producer gave it; 0 for a TOMBSTONE."""
    name: str
    media_type: str
    language: str
    """ISO 639-1, or `und` where no language is certain enough."""
    source_uri: str | None
    principals: tuple[str, ...]
    attributes: Mapping[str, str]
    priority: int
    content_hash: str
    """Hexadecimal SHA-256 of the content as given; empty for DELETE and TOMBSTONE."""
    chunker: str
    """Fingerprint of parser, chunker and, once chunks have them, contexts, with their settings: another one means that
    all chunks may differ."""
    characters: int
    """Unicode code points of the parsed text, which spans count in."""
    occurred_at: Timestamp
    recorded_at: Timestamp
    """When the broker stored the producer's record."""
    received_at: Timestamp
    """When Freki first read it."""
    scan: str = ""
    """Scanner and verdict, such as `clamd: clean`; empty where nothing scanned it."""


@record
class Chunk:
    """A contiguous span of one document revision, or an extract that stands for a longer one."""

    chunk_id: ChunkId
    level: int
    """0 document, 1 section, 2 paragraph. A section that fits one chunk is that chunk, at level 1."""
    path: str
    """Place in the outline, such as `0/3/1`; the parent's path is what stands before the last slash."""
    ordinal: int
    """0-based place in the revision, in reading order, a section before its paragraphs."""
    start: int
    end: int
    """Half-open span in Unicode code points: `text == document.text[start:end]`, but for kind SUMMARY."""
    kind: ChunkKind
    heading_path: tuple[str, ...]
    """Headings above the chunk, outermost first, as plain text."""
    text: str
    overlap: str
    """The header of the table that this chunk continues, else the end of the text of its section before it, cut at
    a word: shown with it, no part of its text."""
    tokens: int
    """Tokens of `text` as the embedder counts them."""
    first_page: int = 0
    last_page: int = 0
    """1-based pages, slides or sheets that the span begins and ends on; 0 where the document has none."""
    window: int = -1
    """0-based, among the batch's windows: the one whose tokens give the vector; -1: the chunk is encoded by itself."""
    window_start: int = 0
    """Where the chunk's text begins in that window, in Unicode code points."""
    header: str = ""
    """Header rows of the table that this chunk continues: embedded before its text; empty elsewhere."""
    language: str = ""
    """ISO 639-1, where it is surely another one than that of the revision; else empty."""


@record
class Definition:
    """A short form that a document explains, such as `UVP = Umweltverträglichkeitsprüfung`."""

    short: str
    long: str


@record
class ChunkBatch:
    """Part `part` of `parts` of a revision; a revision without chunks is one empty part."""

    revision: Revision
    part: int
    """0-based; parts of a revision follow each other in order."""
    parts: int
    """At least 1; the part `parts - 1` is the last."""
    chunks: tuple[Chunk, ...]
    definitions: tuple[Definition, ...] = ()
    """Short forms that chunks of this part use, wherever the document explains them."""
    lead: str = ""
    """The beginning of the document, for a language model to situate chunks by; empty where none does."""
    windows: tuple[str, ...] = ()
    """Texts that are encoded as a whole (late chunking); empty where each chunk is encoded by itself."""


@record
class ContextualChunk:
    """A chunk with the words that situate it in its document."""

    chunk: Chunk
    context: str
    """Embedded and indexed before the chunk's text, never cited."""
    context_key: str = ""
    """Fingerprint of what the context says beyond name and headings; empty where it says no more. With another one
    the chunk is embedded anew."""


@record
class ContextualChunkBatch:
    """A ChunkBatch whose chunks have their context."""

    revision: Revision
    part: int
    """0-based; parts of a revision follow each other in order."""
    parts: int
    """At least 1; the part `parts - 1` is the last."""
    chunks: tuple[ContextualChunk, ...]
    llm: LlmUse | None = None
    """What a language model did for this part and those before it; null where it had nothing to do."""
    windows: tuple[str, ...] = ()
    """Texts that are encoded as a whole (late chunking); empty where each chunk is encoded by itself."""
