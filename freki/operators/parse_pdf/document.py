"""The readable text and outline of a PDF."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from ctypes import c_ushort
from itertools import islice
from typing import NamedTuple

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, PdfTextPage, raw

from freki.operators.errors import NoText, UnreadableContent
from freki.operators.parse_pdf.fields import fields, filled_in
from freki.operators.parse_pdf.layout import Bookmark, layout
from freki.operators.parse_pdf.lines import (
    Glyph,
    TextLine,
    glyphs,
    is_line_readable,
    is_readable,
    is_within,
    line_of,
    upright,
)
from freki.operators.parse_pdf.tables import Grid, Table, grids, table_of
from freki.schemas.outline import (
    ATTACHMENTS,
    MAX_ATTRIBUTE_CHARS,
    PAGES_WITHOUT_TEXT,
    ParsedDocument,
    as_attributes,
    assemble,
    listed,
)
from freki.schemas.stated_time import stated_time

MAX_PAGES = 5000
_MAX_BOOKMARKS = 10_000
_MAX_ATTACHMENTS = 1000
_MAX_SCANNED_SHARE = 0.9
_TITLE_PREFIX = "Microsoft Word - "
_FIELDS = ("Author", "Subject", "Keywords")
_TIMES = {"created": "CreationDate", "modified": "ModDate"}
_LEAST_SCAN_SHARE = 0.5
"""Minimum share of a page that a scanned picture covers."""
_MAX_SCAN_CHARS = 100
"""Maximum characters of a scanned page without recognised text, such as a stamp or running head."""
_LEAST_UNREAD_CHARS = 8
"""Minimum characters in lines of unknown characters by which a page has unread content; fewer are bullets and signs."""
_SCAN = "a scan, or damaged: run OCR over it, such as ocrmypdf, or set FREKI_OCR__COMMAND"


def parse_pdf(content: bytes, *, max_pages: int = MAX_PAGES) -> ParsedDocument:
    """Parse the visible content of a PDF; tagged structure is not used.

    Headings are lines in fonts larger or bolder than that of the body, ranked by size, and titles of bookmarks, with
    their level. Tables have rules between cells, or are runs of at least three lines with a common column. Running
    heads, at the same height of most pages, are left out: near the edge of the text or larger than it, and equal except
    for numbers that count the pages; so are lines at the edge of a page that only say which one it is. Lines in a
    monospaced font are code. What is cut off a page is left out; white or covered text and layers that are switched off
    are not, as PDFium does not tell them. Contents of form fields are included where they are displayed. Paragraphs are
    joined across lines and pages, and hyphenated words are joined. The attribute `pages_without_text` lists pages that
    are pictures with few words, or whose fonts, or those of some of their lines, do not map to characters, as "3, 7-9";
    such lines are left out; `attachments` has the names of embedded files, which are not read.
    Raises UnreadableContent for files that are damaged or encrypted, have more than `max_pages` pages, or are a form
    that only Adobe's programs lay out; NoText where more than nine in ten pages have no text.
    """
    try:
        with closing(PdfDocument(content)) as pdf:
            pdf.init_forms()
            pages = len(pdf)
            if pages > max_pages:
                raise UnreadableContent(
                    f"{pages} pages are more than {max_pages}: split the document, or raise FREKI_PARSING__MAX_PAGES"
                )
            _refuse_placeholder(pdf, pages)
            read = [_page(pdf, number) for number in range(pages)]
            bookmarks = list(islice(_bookmarks(pdf), _MAX_BOOKMARKS))
            attached = listed(list(_attachments(pdf)))
            title, attributes = _stated(pdf, "Title"), [(name, _stated(pdf, name)) for name in _FIELDS]
            attributes.append(("lang", _language(pdf)))
            attributes += [(name, stated_time(_stated(pdf, key))) for name, key in _TIMES.items()]
    except PdfiumError as error:
        raise UnreadableContent(_reason(error, content)) from error
    empty = sum(not page.items for page in read)
    if empty > _MAX_SCANNED_SHARE * pages:
        also = f"; attached files are not read, send them on their own: {attached}" if attached else ""
        raise NoText(f"no text on {empty} of {pages} pages, so this is {_SCAN}{also}")
    unread = [number for number, page in enumerate(read) if page.is_unread]
    attributes += [(PAGES_WITHOUT_TEXT, _ranges(unread)), (ATTACHMENTS, attached)]
    items = [item for page in read for item in page.items]
    return assemble(
        layout(items, bookmarks, pages=pages),
        pages=pages,
        title=title.removeprefix(_TITLE_PREFIX),
        attributes=as_attributes(attributes),
    )


def _refuse_placeholder(pdf: PdfDocument, pages: int) -> None:
    """Raise UnreadableContent for a form that only Adobe's programs lay out: its one page asks readers to wait."""
    if pages == 1 and pdf.get_formtype() == raw.FORMTYPE_XFA_FULL:
        raise UnreadableContent(
            "a dynamic XFA form, without its text in the page: open it in Adobe Reader and print it to PDF"
        )


def _reason(error: PdfiumError, content: bytes) -> str:
    # For a file without pages PDFium reports the error of an earlier file.
    if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY) and b"/Encrypt" in content:
        return "encrypted: save it without a password"
    return "no PDF that can be opened, cut off or damaged: print it to PDF again"


class _Page(NamedTuple):
    items: Sequence[TextLine | Table]
    is_unread: bool
    """Whether it has unread content: it is a picture with few words, or no text was found, or lines are unreadable."""


def _page(pdf: PdfDocument, number: int) -> _Page:
    """Return the lines and tables of a page; none if it is damaged or a picture."""
    try:
        with closing(pdf[number]) as page, closing(page.get_textpage()) as text_page:
            if not is_readable(text_page):
                return _Page((), is_unread=True)
            turn = upright(page)
            shown = turn(page.get_bbox())
            filled = (field for field in fields(page, turn) if is_within(field, shown))
            seen = list(glyphs(text_page, turn, shown))
            known = [line for line in seen if is_line_readable(text_page, line)]
            unread_chars = sum(map(len, seen)) - sum(map(len, known))
            printed = filled_in(known, filled)
            found = [(grid, table_of(grid, printed, number)) for grid in grids(page, turn)]
            tables = [(grid, table) for grid, table in found if table]
            items = tuple(_in_order(text_page, printed, tables, number))
            is_scan = sum(map(len, printed)) <= _MAX_SCAN_CHARS and _is_picture(page)
            is_unread = is_scan or unread_chars >= _LEAST_UNREAD_CHARS or not (items or _is_blank(page))
            return _Page(items, is_unread)
    except PdfiumError:
        return _Page((), is_unread=True)


def _is_blank(page: PdfPage) -> bool:
    return int(raw.FPDFPage_CountObjects(page)) == 0


def _is_picture(page: PdfPage) -> bool:
    """Return whether a picture covers most of a page."""
    room = page.get_width() * page.get_height()
    for image in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) >= _LEAST_SCAN_SHARE * room:
            return True
    return False


def _in_order(
    text_page: PdfTextPage, printed: Sequence[Sequence[Glyph]], tables: Sequence[tuple[Grid, Table]], number: int
) -> Iterator[TextLine | Table]:
    """Yield each table at the position of its first character, and the lines outside of tables."""
    waiting = dict(enumerate(tables))
    for line in printed:
        outside = []
        for glyph in line:
            place = next((place for place, (grid, _) in enumerate(tables) if grid.cell_at(glyph)), None)
            if place is None:
                outside.append(glyph)
            elif place in waiting:
                yield waiting.pop(place)[1]
        if outside:
            yield line_of(text_page, outside, number)


def _bookmarks(pdf: PdfDocument) -> Iterator[Bookmark]:
    for bookmark in pdf.get_toc():
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        title = _text_of(lambda buffer, size, bookmark=bookmark: raw.FPDFBookmark_GetTitle(bookmark, buffer, size))
        if title.strip() and page is not None:
            yield Bookmark(title, page, bookmark.level + 1)


def _attachments(pdf: PdfDocument) -> Iterator[str]:
    """Yield the names of embedded files, such as the documents of a portfolio or the data of an invoice."""
    for number in range(min(raw.FPDFDoc_GetAttachmentCount(pdf), _MAX_ATTACHMENTS)):
        file = raw.FPDFDoc_GetAttachment(pdf, number)
        name = file and _text_of(lambda buffer, size, file=file: raw.FPDFAttachment_GetName(file, buffer, size))
        yield name or "unnamed"


def _stated(pdf: PdfDocument, name: str) -> str:
    key = name.encode() + b"\x00"
    return _text_of(lambda buffer, size: raw.FPDF_GetMetaText(pdf, key, buffer, size))


def _language(pdf: PdfDocument) -> str:
    return _text_of(lambda buffer, size: raw.FPDFCatalog_GetLanguage(pdf, buffer, size))


def _text_of(read: Callable[..., int]) -> str:
    """Return the text that a function of PDFium writes, which ends in NUL and may be invalid."""
    size = read(None, 0)
    buffer = (c_ushort * (size // 2))()
    read(buffer, size)
    return bytes(buffer).decode("utf-16-le", errors="replace").rstrip("\x00")


def _ranges(pages: Sequence[int]) -> str:
    """Return 0-based pages as 1-based ranges, such as "3, 7-9", truncated to the size of an attribute."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][1] + 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    texts = [str(first + 1) if first == last else f"{first + 1}-{last + 1}" for first, last in runs]
    text = ", ".join(texts)
    if len(text) <= MAX_ATTRIBUTE_CHARS:
        return text
    end = f", ... ({len(pages)} pages)"
    return text[: MAX_ATTRIBUTE_CHARS - len(end)].rpartition(",")[0] + end
