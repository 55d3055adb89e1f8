"""Rows of tables without rules, whose cells have several lines."""

from collections.abc import Sequence
from typing import NamedTuple

from freki.operators.parse_pdf.lines import TextLine, extended
from freki.operators.parse_pdf.tables import Table

ALIGNED = 2.0
"""Maximum distance in points of the starts of cells in one column."""
_LEAST_ROWS = 3
"""Minimum rows of a table without rules: two lines may align by chance."""
_CELL_STEP = 1.6
"""Maximum line step within a cell, relative to the font size."""
_MOST_CELL_LINES = 8
"""Maximum lines of the first cell of a row."""
_MOST_ROW_LINES = 200
"""Maximum lines of all cells of a row."""
_SAME_HEIGHT = 0.3
"""Maximum distance of the tops of cells in one row, relative to the font size."""


def with_whole_rows(items: Sequence[TextLine | Table]) -> list[TextLine | Table]:
    """Return the items, with further lines of cells in the row that they belong to where this makes a table.

    Programs write a row cell by cell: behind its first line follow further lines of a cell, which begin where the cell
    does, then cells to the right at the height of the row.
    """
    gathered = _gathered(items)
    in_table = runs([each.row for each in gathered])
    whole: list[TextLine | Table] = []
    for index, each in enumerate(gathered):
        whole += [each.row] if index in in_table else each.lines
    return whole


def runs(items: Sequence[TextLine | Table]) -> dict[int, int]:
    """Return the run number of lines that share a column beyond the first, as in a table without rules."""
    found: dict[int, int] = {}
    start = 0
    for index in range(1, len(items) + 1):
        if index < len(items) and _aligned(items[index - 1], items[index]):
            continue
        if index - start >= _LEAST_ROWS:
            found |= dict.fromkeys(range(start, index), index)
        start = index
    return found


class _Gathered(NamedTuple):
    """A row and the lines that it is made of."""

    row: TextLine | Table
    lines: list[TextLine | Table]


def _gathered(items: Sequence[TextLine | Table]) -> list[_Gathered]:
    found: list[_Gathered] = []
    for item in items:
        first = _first_cell(found, item) if isinstance(item, TextLine) else 0
        lines = [line for each in found[len(found) - first :] for line in each.lines]
        if first > 1:
            found[len(found) - first :] = [_Gathered(_stacked(lines), lines)]
        row, lines = found[-1] if found else (None, [])
        longer = _with(row, lines[-1], item) if row and len(lines) < _MOST_ROW_LINES else None
        if longer is None:
            found.append(_Gathered(item, [item]))
        else:
            found[-1] = _Gathered(longer, lines)
            lines.append(item)
    return found


def _first_cell(found: Sequence[_Gathered], line: TextLine) -> int:
    """Return the number of the last rows that are lines of one cell, left of a line at the height of the first."""
    below: TextLine | None = None
    for count, each in enumerate(reversed(found[-_MOST_CELL_LINES:]), start=1):
        row = each.row
        if isinstance(row, Table) or row.page != line.page or row.pitch or len(row.cells) > 1 or row.right > line.left:
            return 0
        if below and not (0 < row.top - below.top <= _CELL_STEP * row.size and abs(row.left - below.left) < ALIGNED):
            return 0
        if abs(row.top - line.top) <= _SAME_HEIGHT * row.size:
            return count
        below = row
    return 0


def _stacked(lines: Sequence[TextLine | Table]) -> TextLine:
    """Return lines of one cell as one line."""
    first, *others = (line for line in lines if isinstance(line, TextLine))
    for line in others:
        text = extended(first.text, line.text)
        first = first._replace(text=text, cells=(text,), bottom=line.bottom, right=max(first.right, line.right))
    return first


def _with(row: TextLine | Table, before: TextLine | Table, line: TextLine | Table) -> TextLine | None:
    """Return a row with a further line of it, which follows the line `before`; None where it is none."""
    if isinstance(row, Table) or isinstance(before, Table) or isinstance(line, Table):
        return None
    if row.page != line.page or row.pitch or line.pitch:
        return None
    if abs(row.top - line.top) <= _SAME_HEIGHT * row.size and line.left > row.right:
        return _joined(row, line, (*row.cells, *line.cells), (*row.starts, *line.starts))
    column = next((place for place, start in enumerate(row.starts) if abs(start - line.left) < ALIGNED), 0)
    is_next = 0 < before.top - line.top <= _CELL_STEP * line.size
    if not column or not is_next or len(line.cells) > 1 or _reaches(line, row.starts[column + 1 :]):
        return None
    cells = [*row.cells]
    cells[column] = extended(cells[column], line.text)
    return _joined(row, line, tuple(cells), row.starts)


def _reaches(line: TextLine, starts: Sequence[float]) -> bool:
    return any(line.right > start for start in starts)


def _joined(row: TextLine, line: TextLine, cells: tuple[str, ...], starts: tuple[float, ...]) -> TextLine:
    return row._replace(
        text=" ".join(cells),
        cells=cells,
        starts=starts,
        bottom=min(row.bottom, line.bottom),
        right=max(row.right, line.right),
    )


def _aligned(before: TextLine | Table, line: TextLine | Table) -> bool:
    if isinstance(before, Table) or isinstance(line, Table) or before.page != line.page:
        return False
    # In justified text, words beyond the first are aligned by chance only.
    return any(abs(one - other) < ALIGNED for one in before.starts[1:] for other in line.starts[1:])
