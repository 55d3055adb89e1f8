"""Records for tests of the index, each valid as it is."""

from dataclasses import replace
from typing import Any

import numpy as np

from freki.schemas import EVERYONE, ChunkId, ChunkKind, DocumentId, Filter, RootId, TenantId, Timestamp
from freki.schemas.arrays import Floats
from freki.schemas.index import (
    Attempt,
    Generation,
    IndexedChunk,
    KindEmbedder,
    ManifestEntry,
    ManifestPage,
    PageHead,
    Root,
    RowHead,
    RowId,
    Scope,
    Watermark,
)

DIM = 4
GENERATION = Generation(name="g1", embedder="model@1", dim=DIM, analyser="snowball@1")

WITH_KIND_EMBEDDER = Generation(
    name="g1",
    embedder="model@1",
    dim=DIM,
    analyser="snowball@1",
    kind_embedders=(KindEmbedder(kinds=(ChunkKind.CODE,), embedder="coder@1", dim=3),),
)
"""Code has an embedder for itself."""

# What ends a literal, means something to LIKE, JSON pointers or percent-encoding, or is easily cut or folded.
NASTY = (
    *("", " ", "a", "A", "a ", "ä", "a\u0308", "straße", "漢字", "𠀀𠮷", "😀", "\U0010ffff", "\uffff", "\ue000"),
    *('"', "'", "\\", '\\"', "\\\\", 'a"b', "a'b", '" or tenant != "', "'] or [", "\n", "\r\n", "\t", "\x00", "\x7f"),
    *("%", "%%", "_", "a%", "a_b", "%41", "%2525", "\\u0041", "\\x41", "\\n", "\\101", "{x}", "$meta", "[0]", "]"),
    *("/", "~", "~1", "a/b", "a.b", "null", "true", "1", "\u2028", "\u200b", "\ufeff", "x" * 2000),
)

_CHUNK = IndexedChunk(
    row_id=RowId("c0-a1"),
    chunk_id=ChunkId("c0"),
    root_id=RootId("r0"),
    tenant=TenantId("acme"),
    document_id=DocumentId("guide"),
    level=2,
    kind=ChunkKind.PROSE,
    language="de",
    heading_path=("Guide", "Setup"),
    text="Install it.",
    context="From the guide.",
    lexical="install guid",
    tokens=3,
    name="guide.md",
    media_type="text/markdown",
    principals=(EVERYONE,),
    attributes={"team": "docs"},
    version=1,
    edition=0,
    embedder="model@1",
    metadata_hash="f1",
    context_key="5f0c9a2d/7e12",
)

_ROOT = Root(
    root_id=RootId("r0"),
    tenant=TenantId("acme"),
    document_id=DocumentId("guide"),
    version=1,
    deleted=False,
    attempt=Attempt("a1"),
    pages=(),
    chunks=1,
    content_hash="00ff",
    metadata_hash="f1",
    chunker="c1",
    embedder="model@1",
    fingerprint="f1",
    name="guide.md",
    media_type="text/markdown",
    language="de",
    source_uri=None,
    principals=(EVERYONE,),
    attributes={"team": "docs"},
    characters=11,
    occurred_at=Timestamp(1_000),
    recorded_at=Timestamp(2_000),
    received_at=Timestamp(3_000),
    searchable_at=Timestamp(4_000),
)

_SCOPE = Scope(tenant=TenantId("acme"), principals=(), levels=(0, 1, 2), filters=())


def chunk(chunk_id: str, **changes: Any) -> IndexedChunk:
    return replace(_CHUNK, **{"row_id": row(chunk_id), "chunk_id": ChunkId(chunk_id), **changes})


def row(chunk_id: str, attempt: str = "a1") -> RowId:
    return RowId(f"{chunk_id}-{attempt}")


def root(root_id: str, **changes: Any) -> Root:
    return replace(_ROOT, root_id=RootId(root_id), **changes)


def scope(*filters: Filter, **changes: Any) -> Scope:
    return replace(_SCOPE, filters=filters, **changes)


def head(chunk: IndexedChunk) -> RowHead:
    """Give what is listed of a row."""
    return RowHead(row_id=chunk.row_id, version=chunk.version, edition=chunk.edition)


def page(
    root_id: str, version: int, part: int, entries: int = 1, *, attempt: str = "a1", edition: int = 0, **changes: Any
) -> ManifestPage:
    """Make a page whose rows were written by its own attempt; changes: of each of its entries."""
    entry = ManifestEntry(
        chunk_id=ChunkId("c"),
        row_id=row("c", attempt),
        path="0/1",
        ordinal=0,
        start=0,
        end=5,
        overlap="before",
        first_page=3,
        last_page=4,
    )
    return ManifestPage(
        root_id=RootId(root_id),
        version=version,
        edition=edition,
        attempt=Attempt(attempt),
        part=part,
        cut="cut1",
        entries=tuple(
            replace(
                entry,
                **{
                    "chunk_id": ChunkId(f"c{part}-{number}"),
                    "row_id": row(f"c{part}-{number}", attempt),
                    "ordinal": number,
                    **changes,
                },
            )
            for number in range(entries)
        ),
    )


def page_head(page: ManifestPage, *, checked: bool = False) -> PageHead:
    """Give what is listed of a page."""
    return PageHead(
        page_id=page.page_id,
        version=page.version,
        edition=page.edition,
        attempt=page.attempt,
        part=page.part,
        cut=page.cut,
        checked=checked,
        row_ids=tuple(entry.row_id for entry in page.entries),
    )


def watermark(partition: int, occurred_at: int, *, commits: int = 0) -> Watermark:
    return Watermark(
        partition=partition,
        occurred_at=Timestamp(occurred_at),
        committed_at=Timestamp(occurred_at + 5),
        commits=commits,
    )


def vectors(*rows: tuple[float, ...]) -> Floats:
    """Pad each row to DIM and give it length 1."""
    matrix = np.zeros((len(rows), DIM), dtype=np.float32)
    for position, row in enumerate(rows):
        matrix[position, : len(row)] = row
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix /= np.where(lengths > 0, lengths, 1)
    return matrix


def any_vectors(count: int) -> Floats:
    """Give different vectors of length 1."""
    return vectors(*((1.0, float(number), 0.0) for number in range(count)))
