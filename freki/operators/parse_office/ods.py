"""The readable text and outline of an ODS."""

from collections.abc import Container, Iterator
from itertools import repeat
from xml.etree.ElementTree import Element

from freki.operators.parse_office.numbering import whole
from freki.operators.parse_office.odf import CELLS, ROW_GROUPS, Content, content_of, joined, shape_texts
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES
from freki.operators.parse_office.sheets import Sheets
from freki.schemas.outline import ParsedDocument, assemble

_TABLE = "{table}table"
_COLUMN_GROUPS = {"{table}table-columns", "{table}table-header-columns", "{table}table-column-group"}
_MAX_COLUMNS = 16_384
_MIDNIGHT = "T00:00:00"


def parse_ods(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the sheets of an ODS, each a page: its name as a heading, then a table for each run of rows with text.

    Text boxes on a sheet follow its tables. Cells are read as displayed, except dates, which are ISO 8601. Hidden
    sheets are left out but counted; hidden rows and columns are left out, except those of collapsed groups and rows
    that a filter leaves out; so are comments and charts. Raises UnreadableContent for files that are damaged,
    encrypted, larger than `max_unpacked_bytes` unpacked or in characters of their cells, nested too deep, or of more
    than 5 million cells.
    """
    with content_of(content, "spreadsheet", max_unpacked_bytes=max_unpacked_bytes) as document:
        written = Sheets(max_characters=max_unpacked_bytes)
        tables = document.body.findall(_TABLE)
        for page, table in enumerate(tables):
            if not _is_hidden(table, document):
                written.add(page, table.get("{table}name", ""), _rows(table), _beside(table))
        title, attributes = document.package.properties()
    return assemble(written.writer.close(), pages=len(tables), title=title, attributes=attributes)


def _beside(table: Element) -> Iterator[str]:
    """Yield the texts of shapes that lie on a sheet; those of shapes in a cell are part of it."""
    for shapes in table.iterfind("{table}shapes"):
        yield from shape_texts(shapes)


def _is_hidden(table: Element, document: Content) -> bool:
    style = document.styles.get(table.get("{table}style-name", ""))
    look = None if style is None else style.find("{style}table-properties")
    return look is not None and look.get("{table}display") == "false"


def _hidden_columns(table: Element) -> set[int]:
    """Return the 0-based columns that are hidden."""
    hidden = set[int]()
    end = 0
    for column, folded in _each(table, "{table}table-column", _COLUMN_GROUPS):
        start, end = end, min(end + whole(column.get("{table}number-columns-repeated", ""), default=1), _MAX_COLUMNS)
        if _is_collapsed(column, folded=folded):
            hidden.update(range(start, end))
    return hidden


def _rows(table: Element) -> Iterator[list[str]]:
    """Yield rows as often as repeated; empty ones, of which a sheet has a million, once."""
    hidden = _hidden_columns(table)
    for each, folded in _each(table, "{table}table-row", ROW_GROUPS):
        if not _is_collapsed(each, folded=folded):
            row = _row(each, hidden)
            yield from repeat(row, whole(each.get("{table}number-rows-repeated", ""), default=1) if any(row) else 1)


def _each(
    element: Element, tag: str, groups: Container[str], *, folded: bool = False
) -> Iterator[tuple[Element, bool]]:
    """Yield the rows or columns in a table, and whether each is in a group that its reader may unfold."""
    for child in element:
        if child.tag == tag:
            yield child, folded
        elif child.tag in groups:
            yield from _each(child, tag, groups, folded=folded or child.get("{table}display") == "false")


def _is_collapsed(element: Element, *, folded: bool) -> bool:
    """Return whether a row or column is hidden; those of a folded group are collapsed too."""
    return element.get("{table}visibility") == "collapse" and not folded


def _row(row: Element, hidden: Container[int]) -> list[str]:
    texts: list[str] = []
    for cell in row:
        if cell.tag in CELLS:
            count = min(whole(cell.get("{table}number-columns-repeated", ""), default=1), _MAX_COLUMNS - len(texts))
            texts += [_shown(cell)] * count
    texts = [text for column, text in enumerate(texts) if column not in hidden]
    while texts and not texts[-1]:
        texts.pop()
    return texts


def _shown(cell: Element) -> str:
    date = cell.get("{office}date-value", "")
    return date.removesuffix(_MIDNIGHT).replace("T", " ")[:16] if date else joined(cell).strip()
