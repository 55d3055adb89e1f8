"""Parts of reports in Markdown."""

from collections.abc import Iterable


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a Markdown table. Cells are single lines; `|` within a cell becomes `/`."""
    ruled = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in ruled) + "\n"
