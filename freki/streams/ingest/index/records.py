"""Revisions as records of the store, and as receipts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from freki.operators.breadcrumb import with_context
from freki.operators.fence import Action, Decision
from freki.schemas import (
    ChunkId,
    ContextualChunk,
    IndexOutcome,
    OutcomeStatus,
    Revision,
    RevisionOperation,
    Timestamp,
)
from freki.schemas.index import Attempt, IndexedChunk, ManifestEntry, ManifestPage, PageId, Root, RowId, deleted
from freki.schemas.outline import PAGES_WITHOUT_TEXT
from freki.streams.ingest.index.pieces import Piece
from freki.streams.ports import AnalyseText, EmbeddingCacheKey

ENDED = {
    Action.DELETE: OutcomeStatus.DELETED,
    Action.ALREADY_DELETED: OutcomeStatus.DELETED,
    Action.REPEAT: OutcomeStatus.UNCHANGED,
    Action.STALE: OutcomeStatus.STALE,
}
"""Receipts of revisions that need no chunk written."""


class Manifest(NamedTuple):
    """The pages of a whole revision."""

    pages: tuple[PageId, ...]
    chunks: int


@dataclass(slots=True)
class EmbedCounts:
    """What was done for a revision so far, over all of its parts."""

    embedded: int = 0
    tokens: int = 0
    embedded_at: Timestamp | None = None


def chunk_row(
    piece: Piece,
    contextual: ContextualChunk,
    *,
    row_id: RowId,
    edition: int,
    embedder: str,
    analyse_text: AnalyseText,
) -> IndexedChunk:
    """Make the row of a chunk."""
    chunk, revision = contextual.chunk, piece.revision
    return IndexedChunk(
        row_id=row_id,
        chunk_id=chunk.chunk_id,
        root_id=piece.root_id,
        tenant=revision.tenant,
        document_id=revision.document_id,
        level=chunk.level,
        kind=chunk.kind,
        language=revision.language,
        heading_path=chunk.heading_path,
        text=chunk.text,
        context=contextual.context,
        context_key=contextual.context_key,
        lexical=analyse_text(with_context(contextual.context, chunk.text), language=revision.language),
        tokens=chunk.tokens,
        name=revision.name,
        media_type=revision.media_type,
        principals=revision.principals,
        attributes=revision.attributes,
        version=revision.version,
        edition=edition,
        embedder=embedder,
        metadata_hash=piece.metadata_hash,
    )


def cache_key(piece: Piece, contextual: ContextualChunk, *, embedder: str) -> EmbeddingCacheKey:
    """Name all that the vector of a chunk is made of."""
    made_of = piece.embeddable(contextual)
    if made_of.window is None:
        return piece.revision.tenant, embedder, made_of.text
    return piece.revision.tenant, embedder, made_of.window, str(made_of.start), str(made_of.end)


def manifest_pages(piece: Piece, rows: Mapping[ChunkId, RowId], attempt: Attempt) -> Iterator[ManifestPage]:
    """Make the manifest page of each part of a piece."""
    for part in piece.parts:
        entries = tuple(
            ManifestEntry(
                chunk_id=chunk.chunk_id,
                row_id=rows[chunk.chunk_id],
                path=chunk.path,
                ordinal=chunk.ordinal,
                start=chunk.start,
                end=chunk.end,
                overlap=chunk.overlap,
                first_page=chunk.first_page,
                last_page=chunk.last_page,
            )
            for chunk in (contextual.chunk for contextual in part.chunks)
        )
        yield ManifestPage(
            root_id=piece.root_id,
            version=piece.revision.version,
            edition=0,
            attempt=attempt,
            part=part.part,
            cut=piece.cut,
            entries=entries,
        )


def live_root(
    piece: Piece,
    base: Root | None,
    *,
    attempt: Attempt,
    manifest: Manifest,
    embedder: str,
    searchable_at: Timestamp,
) -> Root:
    """Make the root that commits a revision after its last piece."""
    revision = piece.revision
    return Root(
        root_id=piece.root_id,
        tenant=revision.tenant,
        document_id=revision.document_id,
        version=revision.version,
        attempt=attempt,
        deleted=False,
        pages=manifest.pages,
        chunks=manifest.chunks,
        content_hash=revision.content_hash,
        metadata_hash=piece.metadata_hash,
        chunker=revision.chunker,
        embedder=embedder,
        name=revision.name,
        media_type=revision.media_type,
        language=revision.language,
        source_uri=revision.source_uri,
        principals=revision.principals,
        attributes=revision.attributes,
        characters=revision.characters,
        occurred_at=revision.occurred_at,
        recorded_at=revision.recorded_at,
        received_at=revision.received_at,
        searchable_at=searchable_at,
        tombstoned_at=base.tombstoned_at if base is not None else Timestamp(0),
    )


def dead_root(piece: Piece, base: Root | None, *, attempt: Attempt, searchable_at: Timestamp) -> Root:
    """Make the root that commits a deletion."""
    root = live_root(piece, base, attempt=attempt, manifest=Manifest((), 0), embedder="", searchable_at=searchable_at)
    principals = base.principals if base is not None else ()
    # A bare tombstone knows no version: it deletes the one that it finds.
    version = max(root.version, base.version if base is not None else 0)
    before = root.tombstoned_at
    is_tombstone = piece.revision.operation is RevisionOperation.TOMBSTONE
    tombstoned_at = max(before, piece.revision.recorded_at) if is_tombstone else before
    return deleted(replace(root, version=version, principals=principals), tombstoned_at=tombstoned_at)


class Effect(NamedTuple):
    """Result of a change, as its receipt reports it."""

    status: OutcomeStatus
    chunks: int
    """Chunks of the revision."""
    removed: int
    """Rows that were deleted."""
    searchable_at: Timestamp | None
    reason: str = ""


def receipt(piece: Piece, effect: Effect, tally: EmbedCounts, *, generation: str) -> IndexOutcome:
    """Make the receipt of a revision."""
    revision = piece.revision
    return IndexOutcome(
        tenant=revision.tenant,
        document_id=revision.document_id,
        version=revision.version,
        status=effect.status,
        reason=effect.reason,
        generation=generation,
        chunks=effect.chunks,
        embedded=tally.embedded,
        removed=effect.removed,
        tokens=tally.tokens,
        occurred_at=revision.occurred_at,
        recorded_at=revision.recorded_at,
        received_at=revision.received_at,
        embedded_at=tally.embedded_at,
        searchable_at=effect.searchable_at,
        llm=piece.parts[-1].llm,
    )


def remark(revision: Revision, chunks: int) -> str:
    """Say what of an indexed document cannot be found."""
    if not chunks:
        return "the document holds no text: nothing of it can be found"
    unread = revision.attributes.get(PAGES_WITHOUT_TEXT)
    return f"no text was found on pages {unread}: run OCR over the document, such as ocrmypdf" if unread else ""


def written_status(piece: Piece, base: Root | None) -> OutcomeStatus:
    """Tell whether a revision that was written changed the content."""
    same = base is not None and not base.deleted and base.content_hash == piece.revision.content_hash
    return OutcomeStatus.UNCHANGED if same else OutcomeStatus.INDEXED


def ended_at(decision: Decision, base: Root | None, now: Timestamp) -> Timestamp | None:
    """Tell since when readers see what a revision that needed no chunk written says."""
    if decision.action is Action.STALE:
        return None
    return now if decision.action is Action.DELETE or base is None else base.searchable_at
