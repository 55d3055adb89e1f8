"""Markdown page of the tables."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from freki.schemas.names import record


@record
class Section:
    """Measurement on the page."""

    title: str
    measured: Mapping[str, Any]
    """Time and parameters, as in figures.json."""
    tables: Sequence[Table]
    drawings: Sequence[Path]


def markdown(about: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """Return a page with the machine and all tables and plots."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    dirty = " with changes that are not committed" if about["dirty"] else ""
    lines = [
        "# Measured by `make bench`",
        "",
        f"Commit {about['commit']}{dirty} on {about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB.",
        f"{about['system']}, {versions}.",
    ]
    for section in sections:
        measured, run = section.measured, section.measured["run"]
        quick = "; a quick run, whose figures are not representative" if run["quick"] else ""
        source = f"Documents: {run['documents']}, seed {run['seed']}{quick}."
        lines += ["", f"## {section.title}", "", f"{measured['began_at']}, {measured['seconds']} s. {source}"]
        for table in section.tables:
            lines += ["", *table_lines(table)]
        for drawing in section.drawings:
            lines += ["", f"![{drawing.stem}]({drawing.name})"]
    return "\n".join(lines) + "\n"


def table_lines(table: Table) -> Iterator[str]:
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
