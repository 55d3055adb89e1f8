"""Conversion of sheets to pages, with a table for each run of nonempty rows."""

from collections.abc import Iterable, Sequence
from itertools import chain

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.writer import OfficeOutlineWriter

_MAX_CELLS = 5_000_000
"""Maximum cells, including empty ones, which the file need not contain."""


class Sheets:
    """Collects sheets in order."""

    def __init__(self, *, max_characters: int) -> None:
        """Create a collection; max_characters: of all cells, as a file names a text once for many of them."""
        self.writer = OfficeOutlineWriter()
        self._cells_left = _MAX_CELLS
        self._characters_left = self._most_characters = max_characters

    def add(self, page: int, name: str, rows: Iterable[Sequence[str]], boxes: Iterable[str] = ()) -> None:
        """Add a sheet, its name as a heading, then its tables and text boxes; one without text is left out.

        Raises UnreadableContent for too many cells or characters.
        """
        self.writer.page = page
        named = False
        run: list[Sequence[str]] = []
        for row in chain(rows, [()]):
            self._count(row)
            if any(row):
                run.append(row)
            elif run:
                if not named:
                    self.writer.heading(name, 1)
                named = True
                self.writer.table(_trimmed(run))
                run = []
        for box in filter(str.strip, boxes):
            self._count((box,))
            if not named:
                self.writer.heading(name, 1)
            named = True
            self.writer.prose(box)

    def _count(self, row: Sequence[str]) -> None:
        self._cells_left -= max(len(row), 1)
        if self._cells_left < 0:
            raise UnreadableContent(f"more than {_MAX_CELLS} cells: delete empty rows and columns, or split it")
        self._characters_left -= sum(map(len, row))
        if self._characters_left < 0:
            raise UnreadableContent(f"more than {self._most_characters} characters in its cells: split it")


def _trimmed(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Remove leading and trailing columns that are empty in every row."""
    filled = {column for row in rows for column, text in enumerate(row) if text}
    first, last = min(filled), max(filled)
    return [row[first : last + 1] for row in rows]
