"""Rows, manifest pages, roots and receipts of revisions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from freki.operators.breadcrumb import with_context
from freki.operators.fence import Action, Decision
from freki.schemas import ChunkId, ContextualChunk, IndexOutcome, OutcomeStatus, Revision, RevisionOperation, Timestamp
from freki.schemas.index import Attempt, IndexedChunk, ManifestEntry, ManifestPage, PageId, Root, RowId, deleted
from freki.schemas.outline import ATTACHMENTS, PAGES_WITHOUT_TEXT
from freki.streams.ingest.index.pieces import Piece
from freki.streams.ports import AnalyseText, EmbeddingCacheKey

ENDED = {
    Action.DELETE: OutcomeStatus.DELETED,
    Action.ALREADY_DELETED: OutcomeStatus.DELETED,
    Action.REPEAT: OutcomeStatus.UNCHANGED,
    Action.STALE: OutcomeStatus.STALE,
}
"""Receipt status of revisions without chunks to write, by decision."""


class Manifest(NamedTuple):
    """Pages and number of chunks of a complete revision."""

    pages: tuple[PageId, ...]
    chunks: int


@dataclass(slots=True)
class EmbedCounts:
    """Embedded chunks and tokens of a revision so far, over all of its parts."""

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
    match_code: str,
    analyse_text: AnalyseText,
) -> IndexedChunk:
    """Return the row of a chunk."""
    chunk, revision = contextual.chunk, piece.revision
    return IndexedChunk(
        row_id=row_id,
        chunk_id=chunk.chunk_id,
        root_id=piece.root_id,
        tenant=revision.tenant,
        document_id=revision.document_id,
        level=chunk.level,
        kind=chunk.kind,
        language=chunk.language or revision.language,
        heading_path=chunk.heading_path,
        text=chunk.text,
        context=contextual.context,
        context_key=contextual.context_key,
        lexical=analyse_text(
            with_context(contextual.context, chunk.text), language=chunk.language or revision.language
        ),
        tokens=chunk.tokens,
        name=revision.name,
        media_type=revision.media_type,
        principals=revision.principals,
        attributes=revision.attributes,
        version=revision.version,
        edition=edition,
        embedder=embedder,
        match_code=match_code,
        metadata_hash=piece.metadata_hash,
    )


def cache_key(piece: Piece, contextual: ContextualChunk, *, embedder: str) -> EmbeddingCacheKey:
    """Return the cache key of a chunk's vector: tenant, embedder and all inputs."""
    inputs = piece.embeddable(contextual)
    if inputs.window is None:
        # Equal texts may have headings of different length, whose tokens count apart.
        return piece.revision.tenant, embedder, inputs.heading, inputs.text
    return piece.revision.tenant, embedder, inputs.window, str(inputs.start), str(inputs.end)


def manifest_pages(piece: Piece, rows: Mapping[ChunkId, RowId], attempt: Attempt) -> Iterator[ManifestPage]:
    """Yield the manifest page of each part of a piece."""
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
            edition=piece.edition,
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
    fingerprint: str,
    searchable_at: Timestamp,
) -> Root:
    """Return the root that commits a revision after its last piece."""
    revision = piece.revision
    return Root(
        root_id=piece.root_id,
        tenant=revision.tenant,
        document_id=revision.document_id,
        version=revision.version,
        edition=piece.edition,
        attempt=attempt,
        deleted=False,
        pages=manifest.pages,
        chunks=manifest.chunks,
        content_hash=revision.content_hash,
        metadata_hash=piece.metadata_hash,
        chunker=revision.chunker,
        embedder=embedder,
        fingerprint=fingerprint,
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
    """Return the root that commits a deletion."""
    root = live_root(
        piece,
        base,
        attempt=attempt,
        manifest=Manifest((), 0),
        embedder="",
        fingerprint="",
        searchable_at=searchable_at,
    )
    principals = base.principals if base is not None else ()
    # A bare tombstone has no version: it deletes the version in the index.
    version = max(root.version, base.version if base is not None else 0)
    before = root.tombstoned_at
    is_tombstone = piece.revision.operation is RevisionOperation.TOMBSTONE
    tombstoned_at = max(before, piece.revision.recorded_at) if is_tombstone else before
    return deleted(replace(root, version=version, principals=principals), tombstoned_at=tombstoned_at)


class Effect(NamedTuple):
    """Result of a change, as its receipt reports it."""

    status: OutcomeStatus
    chunks: int
    """Number of chunks of the revision."""
    removed: int
    """Number of deleted rows."""
    searchable_at: Timestamp | None
    reason: str = ""


_WITH_ATTACHMENTS = {"application/pdf", "message/rfc822"}
"""Media types whose attribute `attachments` is the parser's; others may have one in their front matter."""


def receipt(piece: Piece, effect: Effect, tally: EmbedCounts, *, generation: str) -> IndexOutcome:
    """Return the receipt of a revision."""
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
        scan=revision.scan,
    )


def remark(revision: Revision, chunks: int) -> str:
    """Return which part of an indexed document cannot be found, and the fix; empty if all of it can."""
    if not chunks:
        return "the document holds no text: no query can find it"
    unread = revision.attributes.get(PAGES_WITHOUT_TEXT)
    attached = revision.attributes.get(ATTACHMENTS) if revision.media_type in _WITH_ATTACHMENTS else None
    remarks = (
        f"no text was found on pages {unread}: run OCR over the document, such as ocrmypdf" if unread else "",
        f"attached files are not indexed, publish them on their own: {attached}" if attached else "",
    )
    return "; ".join(filter(None, remarks))


def written_status(piece: Piece, base: Root | None) -> OutcomeStatus:
    """Return the status of a written revision: UNCHANGED if its content equals that of the live base.

    A version that was reindexed is INDEXED, so that who asked for it can tell.
    """
    if base is not None and base.version == piece.revision.version:
        return OutcomeStatus.INDEXED
    same = base is not None and not base.deleted and base.content_hash == piece.revision.content_hash
    return OutcomeStatus.UNCHANGED if same else OutcomeStatus.INDEXED


def ended_at(decision: Decision, base: Root | None, now: Timestamp) -> Timestamp | None:
    """Return since when the state of a revision without chunks to write is visible; None if it is stale."""
    if decision.action is Action.STALE:
        return None
    return now if decision.action is Action.DELETE or base is None else base.searchable_at
