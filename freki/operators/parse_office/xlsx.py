"""The readable text and outline of an XLSX."""

import re
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES, opened
from freki.operators.parse_office.sheets import Sheets
from freki.operators.parse_office.xlsx_hidden import Hidden, SheetChecker, hidden_in
from freki.schemas.outline import ParsedDocument, assemble

_LITERAL = re.compile(r'"[^"]*"|[\\_*].|\[[^\]]*\]')
"""Parts of a number format that only write signs or blanks: their percent sign multiplies nothing."""
_PADDED = re.compile(r"0{2,}")
"""Number format of a code such as a postcode, which has so many digits at least."""
_SMALLEST_PLAIN, _LARGEST_PLAIN = Decimal("1e-10"), Decimal("1e21")


def parse_xlsx(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the sheets of an XLSX, each a page: its name as a heading, then a table for each run of rows with text.

    Formulas are read as their saved values. Dates are ISO 8601, percentages, durations and leading zeros as displayed,
    all other numbers with up to 15 digits, and plain from 1e-10 to 1e21. Hidden sheets are left out but counted; hidden
    rows and columns are left out, except those of collapsed groups and rows that a filter leaves out; so are comments
    and charts. Raises UnreadableContent for files that are damaged, encrypted, larger than `max_unpacked_bytes`
    unpacked or in characters of their cells, nested too deep, or of more than 5 million cells, and where several sheets
    are one part, or rows or cells are out of order.
    """
    with opened(content, max_unpacked_bytes=max_unpacked_bytes) as package:
        hidden = hidden_in(package, package.check_all(SheetChecker))
        title, attributes = package.properties()
    written = Sheets(max_characters=max_unpacked_bytes)
    with _reading(content) as sheets:
        for page, sheet in enumerate(sheets):
            if sheet.sheet_state == "visible":
                # The stated size of a sheet may be too small, and openpyxl would stop there.
                sheet.reset_dimensions()
                written.add(page, sheet.title, _rows(sheet, hidden.get(sheet.title, Hidden(frozenset(), frozenset()))))
    return assemble(written.writer.close(), pages=len(sheets), title=title, attributes=attributes)


@contextmanager
def _reading(content: bytes) -> Iterator[list[Any]]:
    """Open a workbook, translating all exceptions of openpyxl while it is read."""
    from openpyxl import load_workbook  # noqa: PLC0415 - takes longer to load than most files take to be read

    try:
        with warnings.catch_warnings():
            # Warnings about parts that are not read, such as extensions for validation.
            warnings.simplefilter("ignore")
            with closing(load_workbook(BytesIO(content), read_only=True, data_only=True, keep_links=False)) as workbook:
                yield workbook.worksheets
    except (MemoryError, UnreadableContent):
        raise
    except Exception as error:
        raise UnreadableContent("no XLSX that can be opened, or damaged: open it and save it again as XLSX") from error


def _rows(sheet: Any, hidden: Hidden) -> Iterator[list[str]]:  # noqa: ANN401 - openpyxl has no types
    for number, row in enumerate(sheet.iter_rows(), start=1):
        if number not in hidden.rows:
            yield [_shown(cell) for column, cell in enumerate(row, start=1) if column not in hidden.columns]


def _shown(cell: Any) -> str:  # noqa: ANN401 - openpyxl has no types
    value = cell.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value, cell.number_format or "")
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time.min else value.isoformat(sep=" ", timespec="minutes")
    if isinstance(value, timedelta):
        return _duration(value)
    return "" if value is None else str(value).strip()


def _number(value: Any, number_format: str) -> str:  # noqa: ANN401 - openpyxl has no types
    if _is_percentage(number_format):
        return f"{_percent(value)}%"
    shown = _plain(f"{value:.15g}") if isinstance(value, float) else str(value)
    padded = _PADDED.fullmatch(_LITERAL.sub("", number_format.partition(";")[0]))
    return shown.zfill(len(padded.group())) if padded and shown.isdecimal() else shown


def _percent(value: Any) -> str:  # noqa: ANN401 - openpyxl has no types
    """Return a hundred times a number, which may be larger than any float."""
    if abs(value) < _LARGEST_PLAIN:
        return _plain(f"{100 * value:.12g}")
    return f"{value}00" if isinstance(value, int) else f"{(100 * Decimal(f'{value:.12g}')).normalize():e}"


def _plain(number: str) -> str:
    """Return a number without an exponent, as far as it would not be mostly zeros."""
    is_plain = "e" in number and _SMALLEST_PLAIN <= abs(Decimal(number)) < _LARGEST_PLAIN
    return f"{Decimal(number):f}" if is_plain else number


def _duration(value: timedelta) -> str:
    """Return hours and minutes, more than a day in hours too."""
    minutes, seconds = divmod(round(abs(value).total_seconds()), 60)
    sign = "-" if value < timedelta() else ""
    return f"{sign}{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def _is_percentage(number_format: str) -> bool:
    return "%" in number_format and "%" in _LITERAL.sub("", number_format)
