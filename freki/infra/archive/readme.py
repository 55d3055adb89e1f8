"""README.md of an archive: what each file and column is."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from freki.infra.archive.folder import MANIFEST
from freki.infra.archive.tables import columns_of
from freki.infra.milvus.layout import DOCUMENTS, MANIFESTS, Kind, Layout
from freki.infra.milvus.shards import Shard
from freki.schemas import Timestamp
from freki.schemas.archive import ArchiveManifest

_TYPES = {
    Kind.TEXT: "string",
    Kind.TEXTS: "list of string",
    Kind.INTEGER: "int64",
    Kind.INTEGERS: "list of int64",
    Kind.FLAG: "boolean",
    Kind.JSON: "string: JSON",
    Kind.VECTOR: "fixed-size list of float32",
}
_CHUNKS = {
    "row_id": "key of the row: chunk id and attempt",
    "chunk_id": "id of the chunk, as answers cite it",
    "root_id": "key of the document: hash of tenant and document id",
    "tenant": "tenant *",
    "document_id": "document id as published *",
    "level": "0 document, 1 section, 2 paragraph",
    "kind": "PROSE, LIST, TABLE, CODE or SUMMARY",
    "language": "ISO 639-1, or und *",
    "heading_path": "headings above the chunk, outermost first, as a JSON list",
    "text": "text that answers quote",
    "context": "text before it that is embedded, and never quoted",
    "context_key": "fingerprint of the context; empty for a plain one",
    "lexical": "analysed terms of context and text for BM25, separated by spaces",
    "tokens": "length in tokens of the embedder",
    "name": "name of the document *",
    "media_type": "media type of the document *",
    "principals": "who may read it *",
    "public": "whether everyone may",
    "attributes": "attributes of the document, an object of strings *",
    "version": "version of the revision that wrote the row",
    "edition": "edition of that version",
    "embedder": "fingerprint of the model that made the vector",
    "metadata_hash": "hash of readers, attributes and analyser",
    "match_code": "token vectors for late interaction, encoded",
    "dense": "vector of context and text",
}
_DOCUMENTS = {
    "id": "key of the root: document, version, edition or `deleted`, attempt",
    "key": "root_id of the chunk rows",
    "record": "`root`",
    "tenant": "tenant *",
    "document_id": "document id as published *",
    "fingerprint": "fingerprint of the rules by which it was made: parser, chunker, contexts, analyser, embedder",
    "deleted": "whether the document is deleted; remembered so that no older change restores it",
    "searchable_at": "when it became searchable, in milliseconds since 1970",
    "body": "tenant, document id, version, times, hashes; pages: attempt and number of consecutive parts",
    "attributes": "attributes of the document, an object of strings",
}
_MANIFESTS = {
    "id": "key of the page: document, version, part, attempt",
    "root_id": "key of the document",
    "version": "version of the revision",
    "edition": "edition of that version",
    "attempt": "attempt that wrote the page",
    "part": "number of the page in reading order, from 0",
    "cut": "fingerprint of the division into parts",
    "is_mark": "false",
    "chunk_ids": "chunks of the page in reading order; the following lists have one element for each",
    "row_ids": "key of the chunk's row",
    "paths": "place in the outline of the document",
    "ordinals": "number of the chunk in the document",
    "starts": "first character, counted in code points from 0",
    "ends": "character after the last",
    "overlaps": "text repeated from the chunk before",
    "first_pages": "first page, slide or sheet, from 1; 0 without pages",
    "last_pages": "last page, slide or sheet",
    "named": "chunk id and row id of each chunk once more, as a JSON list; empty where it would be too long",
}


def readme(manifest: ArchiveManifest, shards: Sequence[Shard]) -> str:
    """Return the text."""
    start = manifest.start
    tenant = "all tenants" if start.tenant is None else f"tenant `{start.tenant}`"
    chunks = "\n".join(
        _table(
            shard.layout,
            f"Chunk rows{' of kind ' + ', '.join(sorted(shard.kinds)) if shard.kinds else ''}. "
            f"`dense` has {shard.dim} dimensions.",
            _CHUNKS,
        )
        for shard in shards
    )
    return f"""# Archive of a search index

Written by `freki export` (Freki {start.freki}), {tenant}. Documents: {manifest.documents:,};
remembered deletions: {manifest.deleted:,}; chunks: {manifest.chunks:,}; bytes: {manifest.bytes:,}.
Restore it with `freki import FOLDER`.

- Begun {_time(start.began_at)}, ended {_time(manifest.ended_at)}. It holds every change that was searchable when it was
  begun, and may hold some of later ones, each document as a whole.
- Vectors of `{start.generation.embedder}` with {start.generation.dim} dimensions, terms of
  `{start.generation.analyser}`, columns of version {start.layout}.

Files are Parquet with Zstandard. Each volume, `*-NUMBER-*.parquet`, holds consecutive documents by `root_id` with all
their pages and chunk rows. A root in `documents` names its pages in `manifests`, these name the rows in `chunks`; a row
that no page names belongs to a revision that was replaced during the export.

`{MANIFEST}` holds the parameters of the index (`start.generation`), the watermarks (`start.watermarks`: per partition
the times of the latest searchable change and of its commit), and of each file its rows, bytes and SHA-256. Documents of
which the index had lost rows are listed as `left_out`.

In columns marked * special characters are percent-encoded as UTF-8.

{chunks}
{_table(DOCUMENTS, "One row per document, live or deleted.", _DOCUMENTS)}
{_table(MANIFESTS, "Which chunks a revision has, in reading order; several pages per large document.", _MANIFESTS)}"""


def _table(layout: Layout, title: str, meanings: Mapping[str, str]) -> str:
    rows = [f"| {column.name} | {_TYPES[column.kind]} | {meanings[column.name]} |" for column in columns_of(layout)]
    head = ["| column | type | meaning |", "| --- | --- | --- |"]
    return "\n".join([f"## {layout.name}", "", title, "", *head, *rows, ""])


def _time(time: Timestamp) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
