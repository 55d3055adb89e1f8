"""The outline of comma- and tab-separated values."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from itertools import islice

from freki.operators.errors import UnreadableContent
from freki.schemas.outline import (
    BlockKind,
    ParsedDocument,
    Part,
    assemble,
    header_rows,
    one_line,
    stacked,
    tidy,
    visible,
)

_DELIMITERS = ";\t,|"
"""Possible delimiters; where several fit equally well, the first: a decimal comma parts as regularly as a delimiter."""
_SAMPLE_ROWS = 100
_REGULAR = 0.8
"""Minimum share of rows with the most frequent number of cells."""
_TITLE_ROWS = 3
"""Maximum lines in one cell above a table that are no part of it."""
_STATED = re.compile(r"sep=(.)\n", re.IGNORECASE)
MAX_CELLS = 5_000_000


def parse_csv(source: str) -> ParsedDocument:
    """Parse separated values into one table: a line for each row, cells separated by ` | `.

    The delimiter is the one that a first line `sep=;` states, else the semicolon, tab, comma or bar that gives most
    rows the same number of cells, two or more; without one each line is a row. Quotes as in RFC 4180, and behind spaces
    where they enclose all of a cell within its line; from the row with one without an end on, they are part of their
    cells, and each line is a row. The first row is the header unless it has numbers or equal names. Empty rows are left
    out; line ends within cells become spaces. Raises UnreadableContent for a cell of more than 131,072 characters in a
    text with quotes, as by one without an end, and for more than 5 million cells.
    """
    text = visible(tidy(source))
    stated = _STATED.match(text)
    body = text[stated.end() :] if stated else text
    rows = list(_filled(body, stated.group(1) if stated else _delimiter(body)))
    if not rows:
        return assemble([], attributes={})
    lines = [Part(kind=BlockKind.TABLE, text=" | ".join(row)) for row in rows]
    return assemble([stacked(BlockKind.TABLE, lines, header_rows=header_rows(rows))], attributes={})


def _filled(text: str, delimiter: str) -> Iterator[list[str]]:
    cells = 0
    for row in _rows(text, delimiter):
        cells += len(row)
        if cells > MAX_CELLS:
            raise UnreadableContent(f"more than {MAX_CELLS} cells: split it")
        shown = [one_line(cell) for cell in row]
        if any(shown):
            yield shown


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    # A delimiter that no text contains leaves lines whole.
    delimiter = delimiter or "\x1f"
    return _quoted_rows(text, delimiter) if '"' in text else (line.split(delimiter) for line in StringIO(text))


def _quoted_rows(text: str, delimiter: str) -> Iterator[list[str]]:
    text = _closed_up(text, delimiter)
    # Only a quote without an end goes on to an empty last line.
    padded = f"{text}\n\n"
    last, before = padded.count("\n"), 0
    reader = csv.reader(StringIO(padded), delimiter=delimiter, strict=False)
    try:
        for row in reader:
            if reader.line_num == last and last - before > 1:
                lines = islice(StringIO(text), before, None)
                yield from csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            else:
                yield row
            before = reader.line_num
    except csv.Error as error:
        raise UnreadableContent(f"line {before + 1}: {error}; close its quotation marks, or split it") from error


def _closed_up(text: str, delimiter: str) -> str:
    """Return the text without spaces before quoted cells: behind them Python's reader takes no quotes."""
    between = re.escape(delimiter)
    # Whole cells are taken as they are: what looks like a quoted cell within one is its text.
    whole, behind_spaces = r'"(?:[^"]|"")*+"', r'"(?:[^"\n]|"")*+"'
    cell = rf"(^|{between})(?:({whole})| +({behind_spaces}) *)(?={between}|$)"
    return re.sub(cell, r"\1\2\3", text, flags=re.MULTILINE)


def _delimiter(text: str) -> str:
    """Return the delimiter; empty where none gives regular rows, with the lines of a title above them or without."""
    present = [delimiter for delimiter in _DELIMITERS if delimiter in text]
    widths = {delimiter: _widths(text, delimiter) for delimiter in present}
    for below in (widths, {delimiter: _below_title(each) for delimiter, each in widths.items()}):
        best = max(present, key=lambda delimiter: _regularity(below[delimiter]), default="")
        if best and _regularity(below[best]) >= _REGULAR:
            return best
    return ""


def _widths(text: str, delimiter: str) -> list[int]:
    """Return the numbers of cells of the first rows with text."""
    rows: list[list[str]] = []
    with suppress(UnreadableContent):
        rows.extend(islice(_rows(text, delimiter), _SAMPLE_ROWS))
    return [len(row) for row in rows if any(cell.strip() for cell in row)]


def _below_title(widths: list[int]) -> list[int]:
    """Return the rows below the lines of a title, if there are two or more: in a short table a title counts much."""
    title = next((place for place, width in enumerate(widths[: _TITLE_ROWS + 1]) if width > 1), 0)
    return widths[title:] if len(widths) > title + 1 else widths


def _regularity(widths: list[int]) -> float:
    """Return the share of rows that have the most frequent number of cells, 0 where that is one."""
    counts = Counter(widths)
    width, count = max(counts.items(), key=lambda each: (each[1], each[0]), default=(0, 0))
    return count / counts.total() if width > 1 else 0.0
