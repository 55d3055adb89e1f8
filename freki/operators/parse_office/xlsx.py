"""The readable text and outline of an XLSX."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, time
from io import BytesIO
from itertools import chain
from typing import Any

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES, opened
from freki.operators.parse_office.writer import Writer
from freki.schemas.outline import ParsedDocument, assemble

_MAX_CELLS = 5_000_000
"""With empty ones, which openpyxl makes up where rows and columns are left out."""


def parse_xlsx(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Read the sheets of an XLSX, each a page: its name as a heading, then a table for each run of rows with text.

    Of a formula the value that was saved is read. Dates are ISO 8601, percentages as they are shown, all other numbers
    plain with up to 15 digits. Hidden sheets are left out but counted; comments and charts are left out. Raises
    UnreadableContent for what is damaged, encrypted, larger than `max_unpacked_bytes` unpacked, nested too deep, or of
    more than 5 million cells.
    """
    with opened(content, max_unpacked_bytes=max_unpacked_bytes) as package:
        package.check_all()
        title, attributes = package.properties()
    writer = Writer()
    with _reading(content) as sheets:
        _write(sheets, writer)
    return assemble(writer.close(), pages=len(sheets), title=title, attributes=attributes)


@contextmanager
def _reading(content: bytes) -> Iterator[list[Any]]:
    """Open a workbook. Whatever openpyxl raises while it is read is the workbook's fault."""
    from openpyxl import load_workbook  # noqa: PLC0415 - takes longer to load than most files take to be read

    try:
        with warnings.catch_warnings():
            # About parts that are not read here, such as extensions for validation.
            warnings.simplefilter("ignore")
            with closing(load_workbook(BytesIO(content), read_only=True, data_only=True, keep_links=False)) as workbook:
                yield workbook.worksheets
    except (MemoryError, UnreadableContent):
        raise
    except Exception as error:
        raise UnreadableContent("no XLSX that can be opened, or damaged: open it and save it again as XLSX") from error


def _write(sheets: Iterable[Any], writer: Writer) -> None:
    cells_left = _MAX_CELLS
    for page, sheet in enumerate(sheets):
        if sheet.sheet_state != "visible":
            continue
        writer.page = page
        # Sheets may state a size that is too small, and openpyxl would stop there.
        sheet.reset_dimensions()
        named = False
        run: list[list[str]] = []
        for row in chain(sheet.iter_rows(), [()]):
            cells_left -= max(len(row), 1)
            if cells_left < 0:
                raise UnreadableContent(f"more than {_MAX_CELLS} cells: delete empty rows and columns, or split it")
            texts = [_shown(cell) for cell in row]
            if any(texts):
                run.append(texts)
            elif run:
                if not named:
                    writer.heading(sheet.title, 1)
                named = True
                writer.table(_trimmed(run))
                run = []


def _trimmed(rows: list[list[str]]) -> list[list[str]]:
    """Cut off columns that are empty in every row, before and behind the others."""
    filled = {column for row in rows for column, text in enumerate(row) if text}
    first, last = min(filled), max(filled)
    return [row[first : last + 1] for row in rows]


def _shown(cell: Any) -> str:  # noqa: ANN401 - openpyxl has no types
    value = cell.value
    if isinstance(value, int | float) and not isinstance(value, bool) and "%" in (cell.number_format or ""):
        return f"{100 * value:.12g}%"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time.min else value.isoformat(sep=" ", timespec="minutes")
    return "" if value is None else str(value).strip()
