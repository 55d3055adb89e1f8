"""Columns of the collections, and their limits.

Limits are those of the Milvus server. Milvus Lite enforces none, so they are checked here for both.
"""

import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from freki.schemas.errors import Rejected
from freki.schemas.stored_attributes import MAX_ATTRIBUTES_BYTES

Row = dict[str, Any]

VERSION = 9
"""Version of the columns; a generation of another version is not opened."""

KEY_BYTES = 128
TEXT_BYTES = 65_535
JSON_BYTES = MAX_ATTRIBUTES_BYTES
ELEMENTS = 4_096


class Kind(Enum):
    """Type of a column."""

    TEXT = auto()
    TEXTS = auto()
    """An array. Milvus Lite takes quadratic time to read one (of 200 rows 16 ms), so that rows which queries read in
    numbers have lists as JSON in a text."""
    INTEGER = auto()
    INTEGERS = auto()
    FLAG = auto()
    JSON = auto()
    VECTOR = auto()


class Column(NamedTuple):
    """One field of a collection."""

    name: str
    kind: Kind
    max_bytes: int = TEXT_BYTES
    """Maximum UTF-8 bytes of a text, or of each of several texts."""


class Layout(NamedTuple):
    """A collection; its first column is the primary key."""

    name: str
    columns: tuple[Column, ...]

    @property
    def key(self) -> str:
        """Name of the primary key."""
        return self.columns[0].name

    @property
    def is_searched(self) -> bool:
        """Whether it holds chunk rows."""
        return self.columns is CHUNKS.columns

    @property
    def fields(self) -> list[str]:
        """Names of all columns."""
        return [column.name for column in self.columns]


# Milvus requires a vector in every collection.
_PLACEHOLDER = Column("placeholder", Kind.VECTOR)
PLACEHOLDER = (1.0, 0.0)

CHUNKS = Layout(
    "chunks",
    (
        Column("row_id", Kind.TEXT, KEY_BYTES),
        Column("chunk_id", Kind.TEXT, KEY_BYTES),
        Column("root_id", Kind.TEXT, KEY_BYTES),
        Column("tenant", Kind.TEXT),
        Column("document_id", Kind.TEXT),
        Column("level", Kind.INTEGER),
        Column("kind", Kind.TEXT),
        Column("language", Kind.TEXT),
        Column("heading_path", Kind.TEXT),
        Column("text", Kind.TEXT),
        Column("context", Kind.TEXT),
        Column("context_key", Kind.TEXT, KEY_BYTES),
        Column("lexical", Kind.TEXT),
        Column("tokens", Kind.INTEGER),
        Column("name", Kind.TEXT),
        Column("media_type", Kind.TEXT),
        Column("principals", Kind.TEXTS),
        Column("public", Kind.FLAG),
        Column("attributes", Kind.JSON),
        Column("version", Kind.INTEGER),
        Column("edition", Kind.INTEGER),
        Column("embedder", Kind.TEXT),
        Column("metadata_hash", Kind.TEXT),
        Column("match_code", Kind.TEXT),
        Column("dense", Kind.VECTOR),
    ),
)
"""Chunk rows; the server derives another column, `sparse`, from `lexical` for BM25. `public`: everyone is among the
principals, which compares faster than the array."""

DOCUMENTS = Layout(
    "documents",
    (
        Column("id", Kind.TEXT, KEY_BYTES),
        Column("key", Kind.TEXT, KEY_BYTES),
        Column("record", Kind.TEXT),
        Column("tenant", Kind.TEXT),
        Column("document_id", Kind.TEXT),
        Column("fingerprint", Kind.TEXT, KEY_BYTES),
        Column("deleted", Kind.FLAG),
        Column("searchable_at", Kind.INTEGER),
        Column("body", Kind.JSON),
        Column("attributes", Kind.JSON),
        _PLACEHOLDER,
    ),
)
"""Roots: id = CommitId, key = root_id. Watermarks: id = watermark-partition:writer:turn, key = watermark-partition."""

MANIFESTS = Layout(
    "manifests",
    (
        Column("id", Kind.TEXT, KEY_BYTES),
        Column("root_id", Kind.TEXT, KEY_BYTES),
        Column("version", Kind.INTEGER),
        Column("edition", Kind.INTEGER),
        Column("attempt", Kind.TEXT, KEY_BYTES),
        Column("part", Kind.INTEGER),
        Column("cut", Kind.TEXT, KEY_BYTES),
        Column("is_mark", Kind.FLAG),
        Column("chunk_ids", Kind.TEXTS, KEY_BYTES),
        Column("row_ids", Kind.TEXTS, KEY_BYTES),
        Column("paths", Kind.TEXTS),
        Column("ordinals", Kind.INTEGERS),
        Column("starts", Kind.INTEGERS),
        Column("ends", Kind.INTEGERS),
        Column("overlaps", Kind.TEXTS),
        Column("first_pages", Kind.INTEGERS),
        Column("last_pages", Kind.INTEGERS),
        Column("named", Kind.TEXT),
        _PLACEHOLDER,
    ),
)
"""Manifest pages: id = PageId; arrays have one element per entry. `named`: chunk and row ids once more, as JSON, for
queries; empty where they are too long for a text.

A page that may be committed has a mark: a second row without entries, whose id ends with `:checked`.
"""

LAYOUTS = (CHUNKS, DOCUMENTS, MANIFESTS)
"""Collections of every generation; `shards.py` adds one like `chunks` for each additional embedder."""


KEYS = Layout(
    "keys",
    (
        Column("id", Kind.TEXT, KEY_BYTES),
        Column("root_id", Kind.TEXT, KEY_BYTES),
        Column("key_id", Kind.TEXT, KEY_BYTES),
        Column("wrapped", Kind.TEXT),
        _PLACEHOLDER,
    ),
)
"""Data keys of documents, in a generation that was opened with encryption: id = key_id:random."""

GENERATIONS = Layout(
    "generations",
    (
        Column("id", Kind.TEXT, KEY_BYTES),
        Column("generation", Kind.TEXT, KEY_BYTES),
        Column("serves", Kind.FLAG),
        Column("at", Kind.INTEGER),
        Column("settings", Kind.JSON),
        _PLACEHOLDER,
    ),
)
"""Log of generations, one collection for all of them. Entries are added and removed, never changed."""


def size_of(layout: Layout, row: Row) -> int:
    """Return the approximate size of a row in a message, in bytes.

    Raises Rejected, naming row, column and limit, if the store would refuse it.
    """
    try:
        return sum(_size(column, row[column.name]) for column in layout.columns)
    except Rejected as error:
        raise Rejected(f"{layout.name} row {row[layout.key]}: {error}") from error


def _size(column: Column, value: Any) -> int:  # noqa: ANN401 - as the kind says
    match column.kind:
        case Kind.TEXT:
            return _text_size(column, value)
        case Kind.TEXTS:
            return _elements(column, value) + sum(_text_size(column, text) for text in value)
        case Kind.JSON:
            return _json_size(column, value)
        case Kind.INTEGERS:
            return 8 * _elements(column, value)
        case Kind.VECTOR:
            return 4 * len(value)
        case Kind.INTEGER | Kind.FLAG:
            return 8


def _text_size(column: Column, text: str) -> int:
    size = len(_utf8(column, text))
    if size > column.max_bytes:
        raise Rejected(f"{column.name} has a text of {size} bytes, the store takes {column.max_bytes}")
    return size


def _elements(column: Column, values: Sequence[object]) -> int:
    if len(values) > ELEMENTS:
        raise Rejected(f"{column.name} has {len(values)} elements, the store takes {ELEMENTS}")
    return len(values)


def _json_size(column: Column, value: Mapping[str, Any]) -> int:
    size = len(_utf8(column, json.dumps(value, ensure_ascii=False)))
    if size > JSON_BYTES:
        raise Rejected(f"{column.name} has {size} bytes as JSON, the store takes {JSON_BYTES}: keep fewer")
    return size


def _utf8(column: Column, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Rejected(f"{column.name} holds a lone surrogate, which UTF-8 cannot carry") from error
