"""The rows and columns that the sheets of an XLSX hide, which openpyxl does not tell while it streams them."""

import re
from collections.abc import Mapping
from string import digits
from typing import NamedTuple

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.package import Checker, Package, short

_MAX_COLUMNS = 16_384
_DIGITS = re.compile(r"\d{1,7}")
_ROWS_OF_AREA = re.compile(r"\$?[A-Z]{1,3}\$?(\d{1,7}):\$?[A-Z]{1,3}\$?(\d{1,7})")


class Hidden(NamedTuple):
    """What a sheet hides; both are numbered from 1."""

    rows: frozenset[int]
    columns: frozenset[int]


class SheetChecker(Checker):
    """Notes what a sheet hides, and the areas that it, or a table in it, shows filtered."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: set[int] = set()
        self.columns: set[int] = set()
        self.filtered: set[str] = set()
        self.is_out_of_order = False
        """Whether rows or cells do not follow each other: openpyxl would leave out those that come too late."""
        self._row = self._column = 0
        self._cell = (0, "")
        self._area = ""

    def start(self, tag: str, attributes: dict[str, str], /) -> None:
        """Process the start of an element."""
        super().start(tag, attributes)
        name = short(tag)
        if name == "{x}row":
            self._begin_row(attributes)
        elif name == "{x}c" and "r" in attributes:
            column = attributes["r"].rstrip(digits)
            before, self._cell = self._cell, (len(column), column)
            self.is_out_of_order |= self._cell <= before
        elif name == "{x}col":
            first = max(_number(attributes.get("min", "")), self._column + 1)
            self._column = max(min(_number(attributes.get("max", "")), _MAX_COLUMNS), self._column)
            if _is_hidden(attributes):
                self.columns.update(range(first, self._column + 1))
        elif name == "{x}autoFilter":
            self._area = attributes.get("ref", "")
        elif name == "{x}filterColumn":
            self.filtered.add(self._area)

    def _begin_row(self, attributes: Mapping[str, str]) -> None:
        before, self._row = self._row, _number(attributes.get("r", ""), default=self._row + 1)
        self.is_out_of_order |= self._row <= before
        self._cell = (0, "")
        if _is_hidden(attributes):
            self.rows.add(self._row)


def hidden_in(package: Package, checked: Mapping[str, SheetChecker]) -> dict[str, Hidden]:
    """Return by the name of each sheet what it hides.

    Rows that a filter leaves out, and collapsed groups, are not hidden: readers see that there is more. Raises
    UnreadableContent where several sheets are one part, and for a sheet whose rows or cells are out of order.
    """
    main = package.main()
    workbook, targets = package.tree(main), {relation.id: relation.target for relation in package.relations(main)}
    hidden: dict[str, Hidden] = {}
    read: set[str] = set()
    for sheet in () if workbook is None else workbook.iterfind("{x}sheets/{x}sheet"):
        name = targets.get(sheet.get("{r}id", ""), "")
        if name in read:
            # Its reader would unpack that part for each of them.
            raise UnreadableContent("several of its sheets are one part: open it and save it again as XLSX")
        read.update([name] if name else [])
        found = checked.get(name)
        if found and found.is_out_of_order:
            raise UnreadableContent("rows or cells of a sheet are out of order: open it and save it again as XLSX")
        if found and (found.rows or found.columns):
            tables = [checked[each.target] for each in package.relations(name) if each.target in checked]
            areas = {area for part in (found, *tables) for area in part.filtered}
            rows = frozenset(found.rows).difference(*map(_rows_of, areas))
            hidden[sheet.get("name", "")] = Hidden(rows, frozenset(found.columns))
    return hidden


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    return attributes.get("hidden") in {"1", "true"} and attributes.get("outlineLevel", "0") == "0"


def _number(digits: str, *, default: int = 0) -> int:
    """Return a number of at most seven digits, as the last row has; the default for anything else."""
    return int(digits) if _DIGITS.fullmatch(digits) else default


def _rows_of(area: str) -> range:
    """Return the rows of an area such as `A1:D100`; none for anything else."""
    found = _ROWS_OF_AREA.fullmatch(area)
    return range(int(found[1]), int(found[2]) + 1) if found else range(0)
