"""The readable text and outline of an ODS."""

from collections.abc import Iterator
from itertools import repeat
from xml.etree.ElementTree import Element

from freki.operators.parse_office.numbering import whole
from freki.operators.parse_office.odf import CELLS, ROW_GROUPS, Content, content_of, joined
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES
from freki.operators.parse_office.sheets import Sheets
from freki.schemas.outline import ParsedDocument, assemble

_TABLE = "{table}table"
_MAX_COLUMNS = 16_384
_MIDNIGHT = "T00:00:00"


def parse_ods(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the sheets of an ODS, each a page: its name as a heading, then a table for each run of rows with text.

    Cells are read as displayed, except dates, which are ISO 8601. Hidden sheets are left out but counted;
    comments and charts are left out. Raises UnreadableContent for files that are damaged, encrypted, larger than
    `max_unpacked_bytes` unpacked, nested too deep, or of more than 5 million cells.
    """
    with content_of(content, "spreadsheet", max_unpacked_bytes=max_unpacked_bytes) as document:
        written = Sheets()
        tables = document.body.findall(_TABLE)
        for page, table in enumerate(tables):
            if not _is_hidden(table, document):
                written.add(page, table.get("{table}name", ""), _rows(table))
        title, attributes = document.package.properties()
    return assemble(written.writer.close(), pages=len(tables), title=title, attributes=attributes)


def _is_hidden(table: Element, document: Content) -> bool:
    style = document.styles.get(table.get("{table}style-name", ""))
    look = None if style is None else style.find("{style}table-properties")
    return look is not None and look.get("{table}display") == "false"


def _rows(table: Element) -> Iterator[list[str]]:
    """Yield rows as often as repeated; empty ones, of which a sheet has a million, once."""
    for child in table:
        if child.tag in ROW_GROUPS:
            yield from _rows(child)
        elif child.tag == "{table}table-row":
            row = _row(child)
            yield from repeat(row, whole(child.get("{table}number-rows-repeated", ""), default=1) if any(row) else 1)


def _row(row: Element) -> list[str]:
    texts: list[str] = []
    for cell in row:
        if cell.tag in CELLS:
            count = min(whole(cell.get("{table}number-columns-repeated", ""), default=1), _MAX_COLUMNS - len(texts))
            texts += [_shown(cell)] * count
    while texts and not texts[-1]:
        texts.pop()
    return texts


def _shown(cell: Element) -> str:
    date = cell.get("{office}date-value", "")
    return date.removesuffix(_MIDNIGHT).replace("T", " ")[:16] if date else joined(cell).strip()
