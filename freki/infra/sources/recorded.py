"""Recorded streams of document changes: one JSON object per line, plain or compressed with Zstandard."""

import io
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from freki.infra.text_files import refused
from freki.infra.zstd import opened
from freki.schemas.errors import Rejected
from freki.schemas.names import LARGEST_INTEGER

_MAX_LINE_BYTES = 128_000_000
"""Maximum size of a line: the largest content that workers load by default, with escapes."""


class StreamRecord(BaseModel):
    """One line. Unknown fields are ignored; optional ones are as in DocumentChange."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    op: Literal["upsert", "delete"]
    document_id: Annotated[str, Field(min_length=1)]
    version: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
    content: str | None = None
    name: str | None = None
    media_type: str | None = None
    language: str | None = None
    source_uri: str | None = None
    principals: tuple[str, ...] | None = None
    """Readers; None: those given when the stream is published."""
    attributes: Mapping[str, str] = {}
    priority: Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)] = 0
    occurred_at: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    """Milliseconds since 1970; None where unknown."""

    @model_validator(mode="after")
    def _has_content_unless_deleted(self) -> Self:
        if (self.content is None) != (self.op == "delete"):
            raise ValueError("an upsert needs content, a delete has none")
        return self


def read_stream(path: Path, *, max_line_bytes: int = _MAX_LINE_BYTES) -> Iterator[StreamRecord]:
    """Read a `.jsonl` or `.jsonl.zst` file line by line; empty lines are skipped.

    Raises Rejected, with the line number, for a line that is too long or invalid.
    """
    if not path.name.endswith((".jsonl", ".jsonl.zst")):
        raise Rejected(f"{path}: a recorded stream is a .jsonl or .jsonl.zst file")
    with opened(path) as stream:
        yield from _records(stream, path, max_line_bytes)


def _records(stream: io.BufferedReader, path: Path, max_line_bytes: int) -> Iterator[StreamRecord]:
    number = 0
    while line := stream.readline(max_line_bytes + 1):
        number += 1
        if len(line) > max_line_bytes:
            raise Rejected(f"{path}, line {number}: longer than {max_line_bytes} bytes")
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if line.strip():
            yield _record(line, f"{path}, line {number}")


def _record(line: bytes, place: str) -> StreamRecord:
    try:
        return StreamRecord.model_validate_json(line)
    except ValidationError as error:
        raise refused(error, place) from error
