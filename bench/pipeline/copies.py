"""Grow an index by copies of its documents, for sizes that the model would take hours to fill.

Copies have ids of their own, random vectors, and texts and terms that are halves of two chunks of the document, so that
a search compares as many vectors and reads as many postings as among other documents. What it finds means nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from freki.operators.identify import chunk_id_within, root_id
from freki.schemas import ChunkId, DocumentId, RootId
from freki.schemas.arrays import Floats
from freki.schemas.index import IndexedChunk, ManifestPage, Root, RowId, attempt_of_row, row_id
from freki.streams.ports import ChunkRows, Roots

STEP = 7
"""Distance of the chunks whose halves make one text."""
_MARK = "~copy-"


class Copier:
    """Writer of copies to an index."""

    def __init__(self, rows: ChunkRows, roots: Roots, *, dim: int, seed: int) -> None:
        self._rows = rows
        self._roots = roots
        self._dim = dim
        self._random = np.random.default_rng(seed)

    async def copy(self, root: Root, numbers: Sequence[int]) -> int:
        """Write one copy of a document for each number; return the number of chunks written."""
        by_id = await self._roots.pages(root.pages)
        pages = [by_id[page_id] for page_id in root.pages]
        named = [entry.row_id for page in pages for entry in page.entries]
        found = await self._rows.fetch(named)
        chunks = [found[each][0] for each in named]
        for number in numbers:
            document_id = copy_id(root, number)
            key = root_id(root.tenant, document_id)
            copied = [_copied(chunks, place, number, document_id, key) for place in range(len(chunks))]
            await self._rows.insert(copied, self._vectors(len(copied)))
            written = [_page(page, number, key) for page in pages]
            await self._roots.write_pages(written)
            own = replace(root, root_id=key, document_id=document_id, pages=tuple(page.page_id for page in written))
            await self._roots.commit([own], [])
        return len(chunks) * len(numbers)

    def _vectors(self, count: int) -> Floats:
        vectors = self._random.standard_normal((count, self._dim), dtype=np.float32)
        unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def copy_id(root: Root, number: int) -> DocumentId:
    """Return the id of a copy of a document."""
    return DocumentId(f"{root.document_id}{_MARK}{number}")


def is_copy(root: Root) -> bool:
    """Return whether a document is a copy."""
    return _MARK in root.document_id


def _copied(
    chunks: Sequence[IndexedChunk], place: int, number: int, document_id: DocumentId, key: RootId
) -> IndexedChunk:
    own, other = chunks[place], chunks[(place + STEP * number) % len(chunks)]
    return replace(
        own,
        row_id=_row(own.row_id, own.chunk_id, number),
        chunk_id=_chunk(own.chunk_id, number),
        root_id=key,
        document_id=document_id,
        text=own.text[: len(own.text) // 2] + other.text[len(other.text) // 2 :],
        lexical=_halves(own.lexical.split(), other.lexical.split()),
    )


def _halves(first: Sequence[str], second: Sequence[str]) -> str:
    return " ".join([*first[: len(first) // 2], *second[len(second) // 2 :]])


def _page(page: ManifestPage, number: int, key: RootId) -> ManifestPage:
    entries = (
        replace(entry, chunk_id=_chunk(entry.chunk_id, number), row_id=_row(entry.row_id, entry.chunk_id, number))
        for entry in page.entries
    )
    return replace(page, root_id=key, entries=tuple(entries))


def _chunk(chunk_id: ChunkId, number: int) -> ChunkId:
    return chunk_id_within(chunk_id, f"copy {number}")


def _row(own: RowId, chunk_id: ChunkId, number: int) -> RowId:
    return row_id(_chunk(chunk_id, number), attempt_of_row(own))
