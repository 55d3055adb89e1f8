"""Tables for a terminal as one page of Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text


def markdown(found: Mapping[str, Any], sections: Sequence[tuple[str, Sequence[Table], Sequence[Path]]]) -> str:
    """Put all tables and drawings of a run under the machine that it was made on."""
    about, run = found["machine"], found["run"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    dirty = ", with changes that are not committed" if about["dirty"] else ""
    lines = [
        "# Measured by `make bench`",
        "",
        f"{found['began_at']}, commit {about['commit']}{dirty}.",
        f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB; {about['system']}.",
        f"{versions}.",
        f"Documents: {run['data']}; seed {run['seed']}{'; a quick run' if run['quick'] else ''}.",
    ]
    for title, tables, drawings in sections:
        lines += ["", f"## {title}"]
        for table in tables:
            lines += ["", *_table(table)]
        for drawing in drawings:
            lines += ["", f"![{drawing.stem}]({drawing.name})"]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{_plain(table.title)}**"
        yield ""
    yield _row([_plain(column.header) for column in table.columns])
    yield _row(["---:" if column.justify == "right" else "---" for column in table.columns])
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        yield _row([_plain(cell) for cell in cells])
    if table.caption:
        yield ""
        yield _plain(table.caption)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain
