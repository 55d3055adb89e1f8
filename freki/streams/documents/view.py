"""One document with its chunks."""

from collections.abc import Mapping, Sequence

from freki.operators.breadcrumb import writer_of
from freki.schemas import ChunkCounts, ChunkId, DocumentChunk
from freki.schemas.errors import Unanswered
from freki.schemas.index import IndexedChunk, ManifestEntry, Root, RowId, StoredRow, deleted
from freki.schemas.names import record
from freki.streams.ports import DocumentIndex

_TRIES = 10


@record
class DocumentView:
    """A document with some of its chunks."""

    root: Root
    chunks: tuple[DocumentChunk, ...]
    """In reading order; those without a row are left out."""
    places: tuple[int, ...]
    """0-based place of each of these among all chunks."""
    end: int
    """Place after the last one of these among all chunks, 0-based."""
    total: int
    """Number of chunks in the manifest."""
    counts: ChunkCounts
    """Over all chunks."""


async def view_of(index: DocumentIndex, root: Root, *, first: int = 0, limit: int = 0) -> DocumentView:
    """Return a document with its chunks from the 0-based place `first` on; limit 0: all of them.

    Its root is the one that stands once the chunks are read: they are read again where it was replaced meanwhile.
    Raises Unanswered for a document that changes each time.
    """
    for _ in range(_TRIES):
        view = await _read(index, root, first=first, limit=limit)
        standing = (await index.roots([root.root_id])).get(root.root_id)
        # Nothing is left of a document that was erased meanwhile.
        root = standing or deleted(root, tombstoned_at=root.tombstoned_at)
        if root.commit_id == view.root.commit_id:
            return view
    raise Unanswered(f"{root.document_id!r} was replaced {_TRIES} times while it was read: ask again")


async def _read(index: DocumentIndex, root: Root, *, first: int, limit: int) -> DocumentView:
    pages = await index.pages(root.pages)
    entries = [entry for page_id in root.pages if page_id in pages for entry in pages[page_id].entries]
    counts = _counts(entries, await index.stored([entry.chunk_id for entry in entries]) if entries else {})
    shown = entries[first : first + limit if limit else None]
    rows = await index.fetch([entry.row_id for entry in shown]) if shown else {}
    found = [(first + place, entry) for place, entry in enumerate(shown) if entry.row_id in rows]
    return DocumentView(
        root=root,
        chunks=tuple(_chunk(entry, rows[entry.row_id][0]) for _, entry in found),
        places=tuple(place for place, _ in found),
        end=first + len(shown),
        total=len(entries),
        counts=counts,
    )


def _chunk(entry: ManifestEntry, row: IndexedChunk) -> DocumentChunk:
    return DocumentChunk(
        chunk_id=entry.chunk_id,
        path=entry.path,
        ordinal=entry.ordinal,
        start=entry.start,
        end=entry.end,
        first_page=entry.first_page,
        last_page=entry.last_page,
        kind=row.kind.value,
        heading_path=row.heading_path,
        tokens=row.tokens,
        context=row.context,
        text=row.text,
    )


def _counts(entries: Sequence[ManifestEntry], stored: Mapping[ChunkId, Sequence[StoredRow]]) -> ChunkCounts:
    rows: dict[RowId, StoredRow] = {row.row_id: row for of_chunk in stored.values() for row in of_chunk}
    live = [rows[entry.row_id] for entry in entries if entry.row_id in rows]
    kinds: dict[str, int] = {}
    for row in live:
        kinds[row.kind.value] = kinds.get(row.kind.value, 0) + 1
    return ChunkCounts(
        kinds=kinds,
        explained=sum(bool(row.context_key.partition("/")[0]) for row in live),
        written=sum(bool(writer_of(row.context_key)) for row in live),
        missing=len(entries) - len(live),
    )
