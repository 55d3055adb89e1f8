"""Tables of a page with rules between their cells."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import c_float, c_int
from itertools import product
from typing import NamedTuple

from pypdfium2 import PdfPage, raw

from freki.operators.parse_pdf.lines import Box, Glyph, joined, words

_MAX_OBJECTS = 20_000
"""Maximum objects of a page with tables; drawings may have more."""
_MAX_MEETINGS = 500_000
_MAX_CELLS = 10_000
_MAX_GRIDS = 50
_THIN = 3.0
"""Maximum thickness of a rule in points."""
_SHORT = 5.0
"""Maximum length of a dot of a dotted line in points."""
_NEAR = 3.0
"""Maximum distance in points of rules that coincide or meet."""
_RECTANGLE_SEGMENTS = range(4, 7)


class Rule(NamedTuple):
    """A straight line between cells."""

    level: bool
    """Whether it runs from left to right; else from bottom to top."""
    at: float
    """Height of a level rule, distance from the left of an upright one."""
    start: float
    end: float


class Table(NamedTuple):
    """A table with its text."""

    page: int
    """0-based."""
    rows: tuple[str, ...]
    """Rows from the top, with cells separated by ` | `."""
    edges: tuple[float, ...]
    """Edges of the columns, from the left."""


class Grid:
    """The cells between rules that meet."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        level = [rule for rule in rules if rule.level]
        upright = [rule for rule in rules if not rule.level]
        self.edges = _edges([rule.at for rule in upright], level)
        self._heights = _edges([rule.at for rule in level], upright)
        self.columns, self.rows = len(self.edges) - 1, len(self._heights) - 1
        self.is_table = self.columns > 1 and self.rows > 1 and self.columns * self.rows <= _MAX_CELLS
        if self.is_table:
            self._owners = self._joined_cells(_walls(upright, self.edges), _walls(level, self._heights))

    def cell_at(self, glyph: Glyph) -> tuple[int, int] | None:
        """Return row from the top and column of the cell that holds a glyph."""
        column = bisect_right(self.edges, (glyph.left + glyph.right) / 2) - 1
        height = bisect_right(self._heights, (glyph.bottom + glyph.top) / 2) - 1
        if not (0 <= column < self.columns and 0 <= height < self.rows):
            return None
        return self._owners[self.rows - 1 - height, column]

    def cells(self, row: int, texts: dict[tuple[int, int], str]) -> list[str]:
        """Return the texts of a row; a spanning cell is included once, in its first row."""
        places = [(self._owners[row, column], column) for column in range(self.columns)]
        return [texts.get(owner, "") if owner[0] == row else "" for owner, column in places if owner[1] == column]

    def _joined_cells(
        self, upright: dict[int, list[Rule]], level: dict[int, list[Rule]]
    ) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the cell of each grid position; positions without a rule between belong to the same cell."""
        owners: dict[tuple[int, int], tuple[int, int]] = {}
        for row, column in product(range(self.rows), range(self.columns)):
            bottom, top = self._heights[self.rows - 1 - row], self._heights[self.rows - row]
            left, right = self.edges[column], self.edges[column + 1]
            owner = (row, column)
            if column and not _covers(upright[column], (bottom + top) / 2):
                owner = owners[row, column - 1]
            elif row and not _covers(level[self.rows - row], (left + right) / 2):
                owner = owners[row - 1, column]
            owners[row, column] = owner
        return owners


def grids(page: PdfPage, turn: Callable[[Box], Box]) -> list[Grid]:
    """Return the grids on a page that have at least two rows and columns."""
    found = (Grid(group) for group in _groups(list(_merged(_rules(page, turn)))))
    return [grid for grid in found if grid.is_table][:_MAX_GRIDS]


def table_of(grid: Grid, printed: Iterable[Sequence[Glyph]], page: int) -> Table | None:
    """Return the table of the glyphs in a grid; None where they are in one row or column, as in a drawing."""
    lines: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for line in printed:
        inside: defaultdict[tuple[int, int], list[Glyph]] = defaultdict(list)
        for glyph in line:
            cell = grid.cell_at(glyph)
            if cell is not None:
                inside[cell].append(glyph)
        for cell, parts in inside.items():
            lines[cell].append(words(parts))
    texts = {cell: joined(parts) for cell, parts in lines.items()}
    if min(len({row for row, _ in texts}), len({column for _, column in texts})) < 2:  # noqa: PLR2004 - a pair
        return None
    rows = [grid.cells(row, texts) for row in range(grid.rows)]
    return Table(page, tuple(" | ".join(row) for row in rows if any(row)), grid.edges)


def _rules(page: PdfPage, turn: Callable[[Box], Box]) -> Iterator[Rule]:
    """Yield the rules of a page: thin paths, and the sides of stroked rectangles."""
    for index in range(min(raw.FPDFPage_CountObjects(page), _MAX_OBJECTS)):
        path = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(path) != raw.FPDF_PAGEOBJ_PATH:
            continue
        edges = tuple(c_float() for _ in range(4))
        if not raw.FPDFPageObj_GetBounds(path, *edges):
            continue
        left, bottom, right, top = turn((edges[0].value, edges[1].value, edges[2].value, edges[3].value))
        if max(right - left, top - bottom) <= _SHORT:
            continue
        if top - bottom <= _THIN:
            yield Rule(level=True, at=(bottom + top) / 2, start=left, end=right)
        elif right - left <= _THIN:
            yield Rule(level=False, at=(left + right) / 2, start=bottom, end=top)
        elif _is_drawn_rectangle(path):
            yield from (Rule(level=True, at=height, start=left, end=right) for height in (bottom, top))
            yield from (Rule(level=False, at=side, start=bottom, end=top) for side in (left, right))


def _is_drawn_rectangle(path: raw.FPDF_PAGEOBJECT) -> bool:
    fill, stroke = c_int(), c_int()
    drawn = raw.FPDFPath_GetDrawMode(path, fill, stroke) and stroke.value
    return bool(drawn) and raw.FPDFPath_CountSegments(path) in _RECTANGLE_SEGMENTS


def _merged(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Join collinear adjacent rules: many programs draw the border of each cell separately."""
    lanes: list[list[Rule]] = []
    for rule in sorted(rules):
        if not (lanes and lanes[-1][0].level == rule.level and rule.at - lanes[-1][0].at <= _NEAR):
            lanes.append([])
        lanes[-1].append(rule)
    for lane in lanes:
        pieces = sorted(lane, key=lambda rule: rule.start)
        whole = pieces[0]
        for piece in pieces[1:]:
            if piece.start <= whole.end + _NEAR:
                whole = whole._replace(end=max(whole.end, piece.end))
            else:
                yield whole
                whole = piece
        yield whole


def _groups(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Return the connected components of rules that meet."""
    level = [index for index, rule in enumerate(rules) if rule.level]
    upright = [index for index, rule in enumerate(rules) if not rule.level]
    if len(level) * len(upright) > _MAX_MEETINGS:
        return []
    parents = list(range(len(rules)))
    for one, other in product(level, upright):
        if _meet(rules[one], rules[other]):
            parents[_root(parents, one)] = _root(parents, other)
    groups: defaultdict[int, list[Rule]] = defaultdict(list)
    for index, rule in enumerate(rules):
        groups[_root(parents, index)].append(rule)
    return list(groups.values())


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index


def _meet(level: Rule, upright: Rule) -> bool:
    return (
        level.start - _NEAR <= upright.at <= level.end + _NEAR
        and upright.start - _NEAR <= level.at <= upright.end + _NEAR
    )


def _edges(positions: Sequence[float], across: Sequence[Rule]) -> tuple[float, ...]:
    """Return the edges of cells, ascending: at rules, and at the ends of rules across."""
    ends = [min(rule.start for rule in across), max(rule.end for rule in across)] if across else []
    edges: list[float] = []
    for position in sorted([*positions, *ends]):
        if not edges or position - edges[-1] > _NEAR:
            edges.append(position)
    return tuple(edges)


def _walls(rules: Iterable[Rule], edges: Sequence[float]) -> defaultdict[int, list[Rule]]:
    """Return the rules at each edge."""
    walls: defaultdict[int, list[Rule]] = defaultdict(list)
    for rule in rules:
        walls[max(bisect_right(edges, rule.at) - 1, 0)].append(rule)
    return walls


def _covers(rules: Iterable[Rule], at: float) -> bool:
    return any(rule.start <= at <= rule.end for rule in rules)
