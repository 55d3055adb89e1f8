"""Lists that commands print: as a table, or as JSON, one object per line."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.box import HEAVY_HEAD, Box
from rich.table import Table
from rich.text import Text

from freki.cli.context import console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead, one object per line")]


def whole_table(*columns: str, box: Box | None = HEAVY_HEAD) -> Table:
    """Return a table that folds what does not fit: people type names and versions again, so nothing is cut."""
    table = Table(*columns, box=box)
    for column in table.columns:
        column.overflow = "fold"
    return table


class Rows:
    """Rows of a list, printed together as a table, or each as JSON at once."""

    def __init__(self, *columns: str, as_json: bool, numbers: Sequence[str] = ()) -> None:
        """Begin a list; columns: keys of its rows, and headings; numbers: those to align right."""
        self._columns = columns
        self._as_json = as_json
        self._table = whole_table(*(name.removesuffix("_bytes").replace("_", " ") for name in columns), box=None)
        for name, column in zip(columns, self._table.columns, strict=True):
            column.justify = "right" if name in numbers else "left"

    def add(self, row: Mapping[str, object], **shown: str | Text) -> None:
        """Add a row with a value for each column; shown: what the table has in place of a value."""
        if self._as_json:
            print_json(row)
            return
        self._table.add_row(*(_cell(shown.get(name, row[name])) for name in self._columns))

    def end(self, *, nothing: str) -> None:
        """Print the table; nothing: what stands for an empty one."""
        if not self._as_json:
            self._keep_names_whole()
            console.print(self._table if self._table.row_count else nothing)

    def _keep_names_whole(self) -> None:
        """Fold the other columns first: a name is copied from the list; one that takes half of the line is folded."""
        names = self._table.columns[0]
        names.no_wrap = max((len(str(name)) for name in names.cells), default=0) <= console.width // 2


def print_json(value: object) -> None:
    """Print a value in one line of JSON, as it is, at any width of the terminal."""
    console.out(json.dumps(value, ensure_ascii=False, default=str), highlight=False)


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, bool):
        return Text("yes" if value else "")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Text(", ".join(map(str, value)))
    return Text("–" if value is None else str(value))
