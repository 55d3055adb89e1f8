"""Header rows of tables, for the chunks that continue one."""

from bisect import bisect_right

from freki.operators.chunk.sections import shortened
from freki.schemas.outline import Block, ParsedDocument

MAX_HEADER_CHARS = 300
"""Maximum characters of a header, about 100 tokens: with it a chunk of 256 still fits a model of 512."""


class TableHeaders:
    """The header rows of all tables of a document."""

    def __init__(self, document: ParsedDocument) -> None:
        self._text = document.text
        self._tables = [block for block in document.blocks if block.header_end]
        self._starts = [table.start for table in self._tables]
        self._headers: dict[int, str] = {}
        """By place of the table: a header may be as long as the rows, each chunk of which asks for it."""

    def at(self, start: int) -> str:
        """Return the header of the table whose rows a chunk continues that starts here; empty if there is none.

        Lines without letters and digits, such as `|---|---|`, are left out; a long header is cut at a word.
        """
        place = bisect_right(self._starts, start) - 1
        table = self._tables[place] if place >= 0 else None
        if table is None or not table.header_end <= start < table.end:
            return ""
        if place not in self._headers:
            self._headers[place] = self._header(table)
        return self._headers[place]

    def _header(self, table: Block) -> str:
        lines = self._text[table.start : table.header_end].splitlines()
        return shortened("\n".join(line.strip() for line in lines if any(map(str.isalnum, line))), MAX_HEADER_CHARS)
