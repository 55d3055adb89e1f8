"""Lossless conversion of chunks, roots and manifest pages to rows of the store and back."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

import numpy as np

from freki.infra.milvus.keys import checked_key, checked_long_key
from freki.infra.milvus.layout import PLACEHOLDER, TEXT_BYTES, Row
from freki.schemas import EVERYONE, ChunkId, ChunkKind, DocumentId, RootId, TenantId
from freki.schemas.arrays import Floats
from freki.schemas.escaping import escaped, unescaped
from freki.schemas.index import (
    Attempt,
    ChunkContent,
    IndexedChunk,
    ManifestEntry,
    ManifestPage,
    PageHead,
    PageId,
    Root,
    RowId,
    StoredRow,
    attempt_of_page,
    page_id,
)
from freki.schemas.names import extended
from freki.schemas.stored_attributes import attributes_column, attributes_of

ROOT = "root"
"""Value of the column `record` of a root."""
MARKED = ":checked"
STORED = tuple(field.name for field in fields(StoredRow))
"""Columns that decide whether a chunk row can be reused."""
CONTENT = tuple(field.name for field in fields(ChunkContent))
"""Columns of a chunk row that ranking and answers read."""
_ROOT_BODY = tuple(field.name for field in fields(Root) if field.name != "attributes")
_ENTRY_COLUMNS = {
    "chunk_id": "chunk_ids",
    "row_id": "row_ids",
    "path": "paths",
    "ordinal": "ordinals",
    "start": "starts",
    "end": "ends",
    "overlap": "overlaps",
    "first_page": "first_pages",
    "last_page": "last_pages",
}


def chunk_row(chunk: IndexedChunk, vector: Floats) -> Row:
    """Return the row of a chunk with its vector, shape (dim,)."""
    return {
        "row_id": checked_long_key(chunk.row_id),
        "chunk_id": checked_key(chunk.chunk_id),
        "root_id": checked_key(chunk.root_id),
        "tenant": escaped(chunk.tenant),
        "document_id": escaped(chunk.document_id),
        "level": chunk.level,
        "kind": chunk.kind.value,
        "language": escaped(chunk.language),
        "heading_path": _packed(chunk.heading_path),
        "text": chunk.text,
        "context": chunk.context,
        "context_key": chunk.context_key,
        "lexical": chunk.lexical,
        "tokens": chunk.tokens,
        "name": escaped(chunk.name),
        "media_type": escaped(chunk.media_type),
        "principals": [escaped(principal) for principal in chunk.principals],
        "public": EVERYONE in chunk.principals,
        "attributes": attributes_column(chunk.attributes),
        "version": chunk.version,
        "edition": chunk.edition,
        "embedder": chunk.embedder,
        "metadata_hash": chunk.metadata_hash,
        "match_code": chunk.match_code,
        "dense": vector,
    }


def chunk_of(row: Row) -> tuple[IndexedChunk, Floats]:
    """Return the chunk and vector of a row of `chunk_row`."""
    chunk = extended(
        IndexedChunk,
        content_of(row),
        row_id=RowId(row["row_id"]),
        chunk_id=ChunkId(row["chunk_id"]),
        root_id=RootId(row["root_id"]),
        tenant=TenantId(unescaped(row["tenant"])),
        document_id=DocumentId(unescaped(row["document_id"])),
        name=unescaped(row["name"]),
        media_type=unescaped(row["media_type"]),
        principals=tuple(unescaped(principal) for principal in row["principals"]),
        attributes=attributes_of(row["attributes"]),
        version=row["version"],
        edition=row["edition"],
        embedder=row["embedder"],
        metadata_hash=row["metadata_hash"],
        match_code=row["match_code"],
    )
    return chunk, np.asarray(row["dense"], dtype=np.float32)


def heading_path_of(row: Row) -> tuple[str, ...]:
    """Return the heading path of a row of `chunk_row`."""
    return tuple(json.loads(row["heading_path"]))


def named_in(row: Row) -> list[tuple[ChunkId, RowId]]:
    """Return the chunks and rows that a page of `page_row` names, in reading order, by `named`."""
    return [(ChunkId(chunk_id), RowId(row_id)) for chunk_id, row_id in json.loads(row["named"])]


def stored_of(row: Row) -> StoredRow:
    """Return the columns STORED of a chunk row."""
    return StoredRow(**{name: row[name] for name in STORED} | {"kind": ChunkKind(row["kind"])})


def content_of(row: Row) -> ChunkContent:
    """Return the columns CONTENT of a chunk row."""
    return ChunkContent(
        level=row["level"],
        kind=ChunkKind(row["kind"]),
        language=unescaped(row["language"]),
        heading_path=heading_path_of(row),
        text=row["text"],
        context=row["context"],
        context_key=row["context_key"],
        lexical=row["lexical"],
        tokens=row["tokens"],
    )


def root_row(root: Root) -> Row:
    """Return the row of a root."""
    return {
        "id": checked_long_key(root.commit_id),
        "key": checked_key(root.root_id),
        "record": ROOT,
        "tenant": escaped(root.tenant),
        "document_id": escaped(root.document_id),
        "fingerprint": root.fingerprint,
        "deleted": root.deleted,
        "searchable_at": root.searchable_at,
        "body": {name: getattr(root, name) for name in _ROOT_BODY} | {"pages": _runs(root.pages)},
        "attributes": dict(root.attributes),
        "placeholder": PLACEHOLDER,
    }


def root_of(row: Row) -> Root:
    """Return the root of a row of `root_row`."""
    body = row["body"]
    pages = _page_ids(RootId(body["root_id"]), body["version"], body["pages"])
    return Root(**{**body, "principals": tuple(body["principals"]), "pages": pages}, attributes=row["attributes"])


def _packed(values: Sequence[Any]) -> str:
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def _runs(pages: Sequence[PageId]) -> list[tuple[str, int]]:
    """Return the pages of a manifest run-length encoded: each attempt, and its number of consecutive parts."""
    return [(attempt, len(list(run))) for attempt, run in groupby(map(attempt_of_page, pages))]


def _page_ids(root_id: RootId, version: int, runs: Sequence[tuple[str, int]]) -> tuple[PageId, ...]:
    """Return the page ids of an encoding of `_runs`."""
    attempts = [Attempt(attempt) for attempt, count in runs for _ in range(count)]
    return tuple(page_id(root_id, version, part, attempt) for part, attempt in enumerate(attempts))


def page_row(page: ManifestPage) -> Row:
    """Return the row of a manifest page. Raises Rejected if its key or that of its mark is invalid."""
    checked_long_key(mark_of(page.page_id))
    # Ids are ASCII: a row with others is refused.
    named = _packed([[entry.chunk_id, entry.row_id] for entry in page.entries])
    return {
        "id": checked_long_key(page.page_id),
        "root_id": checked_key(page.root_id),
        "version": page.version,
        "edition": page.edition,
        "attempt": page.attempt,
        "part": page.part,
        "cut": page.cut,
        "is_mark": False,
        **{column: [getattr(entry, name) for entry in page.entries] for name, column in _ENTRY_COLUMNS.items()},
        "named": named if len(named) <= TEXT_BYTES else "",
        "placeholder": PLACEHOLDER,
    }


def mark_row(page: ManifestPage) -> Row:
    """Return the row that marks a page as checked."""
    row = page_row(page)
    entries: Row = {column: [] for column in _ENTRY_COLUMNS.values()}
    return {**row, "id": mark_of(page.page_id), "is_mark": True, **entries, "named": ""}


def mark_of(page_id: PageId) -> str:
    """Return the key of a page's mark."""
    return f"{page_id}{MARKED}"


def page_of(row: Row) -> ManifestPage:
    """Return the page of a row of `page_row`."""
    columns = (row[column] for column in _ENTRY_COLUMNS.values())
    return ManifestPage(
        root_id=RootId(row["root_id"]),
        version=row["version"],
        edition=row["edition"],
        attempt=Attempt(row["attempt"]),
        part=row["part"],
        cut=row["cut"],
        entries=tuple(
            ManifestEntry(**dict(zip(_ENTRY_COLUMNS, entry, strict=True))) for entry in zip(*columns, strict=True)
        ),
    )


def heads_of(rows: Iterable[Row]) -> dict[RootId, list[PageHead]]:
    """Return pages without positions, by document, and whether each is marked as checked.

    A mark without its page counts as an unchecked page that names no row: whoever deletes pages deletes it too.
    """
    pages: list[Row] = []
    marks: dict[str, Row] = {}
    for row in rows:
        if row["is_mark"]:
            marks[row["id"].removesuffix(MARKED)] = row
        else:
            pages.append(row)
    found: dict[RootId, list[PageHead]] = {}
    for row in pages:
        is_checked = marks.pop(row["id"], None) is not None
        found.setdefault(RootId(row["root_id"]), []).append(_head_of(row, PageId(row["id"]), checked=is_checked))
    for page, mark in marks.items():
        found.setdefault(RootId(mark["root_id"]), []).append(_head_of(mark, PageId(page), checked=False))
    return found


def _head_of(row: Row, page: PageId, *, checked: bool) -> PageHead:
    return PageHead(
        page_id=page,
        version=row["version"],
        edition=row["edition"],
        attempt=Attempt(row["attempt"]),
        part=row["part"],
        cut=row["cut"],
        checked=checked,
        row_ids=tuple(map(RowId, row["row_ids"])),
    )
