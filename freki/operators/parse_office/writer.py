"""Collects parts of Office documents; consecutive list items form one list."""

from collections.abc import Sequence

from freki.schemas.outline import BlockKind, Part, header_rows, one_line, stacked, visible

_MAX_INDENT = 8


class OfficeOutlineWriter:
    """Collects parts in reading order."""

    def __init__(self) -> None:
        self.page = 0
        """Page of the following parts, 0-based."""
        self._parts: list[Part] = []
        self._items: list[str] = []
        self._notes: list[str] = []

    def heading(self, text: str, level: int) -> None:
        """Add a heading."""
        self._put(Part(kind=BlockKind.HEADING, text=one_line(visible(text)), heading_level=level, page=self.page))

    def prose(self, text: str) -> None:
        """Add a paragraph."""
        self._put(Part(kind=BlockKind.PROSE, text=visible(text).strip(), page=self.page))

    def table(self, rows: Sequence[Sequence[str]], *, headers: int = 0) -> None:
        """Add a table; rows without text are left out.

        headers: rows at the beginning that the file marks as header; 0: `header_rows` decides.
        """
        shown = ([one_line(visible(cell)) for cell in row] for row in rows)
        filled = [row for row in shown if any(row)]
        if filled:
            lines = [" | ".join(row) for row in filled]
            self._put(self._stacked(BlockKind.TABLE, lines, headers or header_rows(filled)))

    def item(self, text: str, *, depth: int = 0, marker: str = "- ") -> None:
        """Add an item to the current list, or begin one."""
        if shown := visible(text).strip():
            self._items.append("  " * min(depth, _MAX_INDENT) + marker + shown)

    def note(self, text: str) -> None:
        """Add a footnote after the current block."""
        self._notes.append(visible(text).strip())

    def close(self) -> list[Part]:
        """End the current block, and return all parts so far."""
        if self._items:
            self._parts.append(self._stacked(BlockKind.LIST, self._items))
        self._parts += [Part(kind=BlockKind.PROSE, text=note, page=self.page) for note in self._notes if note]
        self._items, self._notes = [], []
        return self._parts

    def _stacked(self, kind: BlockKind, lines: list[str], headers: int = 0) -> Part:
        return stacked(kind, [Part(kind=kind, text=line, page=self.page) for line in lines], header_rows=headers)

    def _put(self, part: Part) -> None:
        if part.text:
            self.close()
            self._parts.append(part)
