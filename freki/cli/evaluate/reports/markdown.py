"""Parts of reports in Markdown."""

from collections.abc import Iterable


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Write a table; a cell is one line, and no bar ends it early."""
    ruled = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in ruled) + "\n"
