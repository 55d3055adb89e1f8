"""Columns of the cells of a table."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from selectolax.lexbor import LexborNode

from freki.operators.parse_html.labels import integer

# Of no table that people read; each row of a page could otherwise cost thousands of bars.
_MAX_SPAN = 64


class Columns:
    """Follows the cells of a table through its rows; `colspan` and `rowspan` cover columns, up to 64."""

    def __init__(self) -> None:
        self._row = 0
        self._next = 0
        self._column = 0
        self._last = 0
        self._covered: dict[int, int] = {}
        """Last row in which a cell of a row above covers a column."""
        self._used: set[int] = set()

    def begin_row(self) -> None:
        """Start a row."""
        self._row += 1
        self._next = self._column = self._last = 0

    def begin_cell(self, cell: LexborNode) -> None:
        """Start a cell of the row, in the next column that is free."""
        while self._covered.get(self._next, 0) >= self._row:
            self._next += 1
        self._column = self._next
        attributes = cell.attributes
        self._next += min(max(integer(attributes.get("colspan")) or 1, 1), _MAX_SPAN)
        rows = integer(attributes.get("rowspan")) or 1
        if rows > 1:
            for column in range(self._column, min(self._next, _MAX_SPAN)):
                self._covered[column] = self._row + rows - 1

    def fill(self) -> tuple[int, int] | None:
        """Note that the cell has text; return the columns that end before it in this row, if any do.

        They are those from the last one with text on, as a half-open span.
        """
        if self._row:
            self._used.add(self._column)
        ended = (self._last, self._column)
        self._last = self._column
        return ended if ended[0] < ended[1] else None

    def counted(self, spans: Iterable[tuple[int, int]]) -> Iterator[int]:
        """Yield for each span how many of its columns have text in any row."""
        used = sorted(self._used)
        return (bisect_left(used, end) - bisect_left(used, start) for start, end in spans)
