"""Rows that were read before: a row is never changed, so that what it holds counts as long as something names it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from sys import getsizeof
from typing import TypeVar

from freki.schemas.arrays import Floats
from freki.schemas.index import ChunkContent, Passage, RowId
from freki.schemas.names import record
from freki.streams.ports import Cache, ReadableRows

T = TypeVar("T")

Content = tuple[ChunkContent, Floats]
"""What ranking and answers read of a row, with its vector."""
_RECORD_BYTES = 128
"""Approximate size of a record without its texts, and of an array without its numbers."""


@record
class RowCaches:
    """Caches of what was read of rows."""

    match_codes: Cache[str]
    contents: Cache[Content]
    passages: Cache[Passage]


class KnownRows:
    """Satisfies ReadableRows: reads from the store only what is not cached. Callers check which rows are live."""

    def __init__(self, rows: ReadableRows, caches: RowCaches) -> None:
        self._rows = rows
        self._caches = caches

    async def match_codes(self, row_ids: Sequence[RowId]) -> Mapping[RowId, str]:
        """Return what late interaction compares."""
        return await _read(self._caches.match_codes, self._rows.match_codes, row_ids, size=getsizeof)

    async def contents(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Content]:
        """Return what ranking and answers read, with vectors of shape (dim,)."""
        return await _read(self._caches.contents, self._rows.contents, row_ids, size=_content_bytes)

    async def passages(self, row_ids: Sequence[RowId]) -> Mapping[RowId, Passage]:
        """Return the texts of rows with headings and contexts."""
        known = {row_id: _passage(content) for row_id, (content, _) in self._caches.contents.get_all(row_ids).items()}
        others = [row_id for row_id in row_ids if row_id not in known]
        return {**known, **await _read(self._caches.passages, self._rows.passages, others, size=_passage_bytes)}


async def _read(
    cache: Cache[T],
    read: Callable[[Sequence[RowId]], Awaitable[Mapping[RowId, T]]],
    row_ids: Sequence[RowId],
    *,
    size: Callable[[T], int],
) -> Mapping[RowId, T]:
    known = cache.get_all(row_ids)
    unknown = [row_id for row_id in row_ids if row_id not in known]
    if not unknown:
        return known
    found = await read(unknown)
    cache.keep_all(found, size=size)
    return {**known, **found}


def _passage(content: ChunkContent) -> Passage:
    return Passage(
        text=content.text,
        heading_path=content.heading_path,
        context=content.context,
        context_key=content.context_key,
    )


def _content_bytes(content: Content) -> int:
    row, vector = content
    return _passage_bytes(_passage(row)) + getsizeof(row.lexical) + _RECORD_BYTES + vector.nbytes


def _passage_bytes(passage: Passage) -> int:
    # One sign that Latin-1 lacks, such as a German quotation mark, doubles the size of a text.
    texts = (passage.text, passage.context, passage.context_key, *passage.heading_path)
    return _RECORD_BYTES + sum(map(getsizeof, texts))
