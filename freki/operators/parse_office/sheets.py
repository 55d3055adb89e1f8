"""Conversion of sheets to pages, with a table for each run of nonempty rows."""

from collections.abc import Iterable, Sequence
from itertools import chain

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.writer import OfficeOutlineWriter

_MAX_CELLS = 5_000_000
"""Maximum cells, including empty ones, which the file need not contain."""


class Sheets:
    """Collects sheets in order."""

    def __init__(self) -> None:
        self.writer = OfficeOutlineWriter()
        self._cells_left = _MAX_CELLS

    def add(self, page: int, name: str, rows: Iterable[Sequence[str]]) -> None:
        """Add a sheet, its name as a heading; one without text is left out. Too many cells raise UnreadableContent."""
        self.writer.page = page
        named = False
        run: list[Sequence[str]] = []
        for row in chain(rows, [()]):
            self._cells_left -= max(len(row), 1)
            if self._cells_left < 0:
                raise UnreadableContent(f"more than {_MAX_CELLS} cells: delete empty rows and columns, or split it")
            if any(row):
                run.append(row)
            elif run:
                if not named:
                    self.writer.heading(name, 1)
                named = True
                self.writer.table(_trimmed(run))
                run = []


def _trimmed(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Remove leading and trailing columns that are empty in every row."""
    filled = {column for row in rows for column, text in enumerate(row) if text}
    first, last = min(filled), max(filled)
    return [row[first : last + 1] for row in rows]
