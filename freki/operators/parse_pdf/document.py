"""The readable text and outline of a PDF."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from ctypes import c_ushort
from itertools import islice
from typing import NamedTuple

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, PdfTextPage, raw

from freki.operators.errors import UnreadableContent
from freki.operators.parse_pdf.fields import fields, filled_in
from freki.operators.parse_pdf.layout import Bookmark, layout
from freki.operators.parse_pdf.lines import Glyph, TextLine, glyphs, is_readable, line_of, upright
from freki.operators.parse_pdf.tables import Grid, Table, grids, table_of
from freki.schemas.outline import MAX_ATTRIBUTE_CHARS, PAGES_WITHOUT_TEXT, ParsedDocument, as_attributes, assemble

MAX_PAGES = 5000
_MAX_BOOKMARKS = 10_000
_MAX_SCANNED_SHARE = 0.9
_TITLE_PREFIX = "Microsoft Word - "
_FIELDS = ("Author", "Subject", "Keywords")
_LEAST_SCAN_SHARE = 0.5
"""Of a page: a picture that covers less is one of its text's."""
_MAX_SCAN_CHARS = 100
"""On a page that is a picture: a stamp or a running head, and no text that was recognised."""
_SCAN = "a scan, or damaged: run OCR over it, such as ocrmypdf"


def parse_pdf(content: bytes, *, max_pages: int = MAX_PAGES) -> ParsedDocument:
    """Read a PDF as a reader does, from what its pages show: a tagged structure is not asked for.

    Headings are lines in fonts larger or bolder than the body's, ranked by size, and titles among the bookmarks, whose
    level they take. Tables are what has rules between cells, and runs of three lines or more that share a column. Lines
    that stand at the same height of most pages are left out. Lines in a font of one width are code. What was
    filled into a form stands where it is shown. Paragraphs are joined over line and page ends, and so are
    words that a hyphen parts. The attribute `pages_without_text` names pages that are pictures but for a few words, or
    whose fonts do not tell what their characters are, as "3, 7-9".
    Raises UnreadableContent for what is damaged or encrypted, has more than `max_pages` pages, or has no text on more
    than nine in ten of them.
    """
    try:
        with closing(PdfDocument(content)) as pdf:
            pdf.init_forms()
            pages = len(pdf)
            if pages > max_pages:
                raise UnreadableContent(
                    f"{pages} pages are more than {max_pages}: split the document, or raise FREKI_PARSING__MAX_PAGES"
                )
            read = [_page(pdf, number) for number in range(pages)]
            bookmarks = list(islice(_bookmarks(pdf), _MAX_BOOKMARKS))
            title, attributes = _stated(pdf, "Title"), [(name, _stated(pdf, name)) for name in _FIELDS]
            attributes.append(("lang", _language(pdf)))
    except PdfiumError as error:
        raise UnreadableContent(_reason(error, content)) from error
    empty = sum(not page.items for page in read)
    if empty > _MAX_SCANNED_SHARE * pages:
        raise UnreadableContent(f"no text on {empty} of {pages} pages, so this is {_SCAN}")
    unread = [number for number, page in enumerate(read) if page.is_unread]
    attributes.append((PAGES_WITHOUT_TEXT, _ranges(unread)))
    items = [item for page in read for item in page.items]
    return assemble(
        layout(items, bookmarks, pages=pages),
        pages=pages,
        title=title.removeprefix(_TITLE_PREFIX),
        attributes=as_attributes(attributes),
    )


def _reason(error: PdfiumError, content: bytes) -> str:
    # Of a file without pages PDFium gives the reason why an earlier one did not open.
    if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY) and b"/Encrypt" in content:
        return "encrypted: save it without a password"
    return "no PDF that can be opened, cut off or damaged: print it to PDF again"


class _Page(NamedTuple):
    items: Sequence[TextLine | Table]
    is_unread: bool
    """Whether it shows more than its text: it is a picture but for a few words, or no text was found on it."""


def _page(pdf: PdfDocument, number: int) -> _Page:
    """Return the lines and tables of a page; none of one that is damaged, as of one that is a picture."""
    try:
        with closing(pdf[number]) as page, closing(page.get_textpage()) as text_page:
            turn = upright(page)
            printed = filled_in(list(glyphs(text_page, turn)), fields(page, turn)) if is_readable(text_page) else []
            found = [(grid, table_of(grid, printed, number)) for grid in grids(page, turn)]
            tables = [(grid, table) for grid, table in found if table]
            items = tuple(_in_order(text_page, printed, tables, number))
            is_scan = sum(map(len, printed)) <= _MAX_SCAN_CHARS and _is_picture(page)
            return _Page(items, is_scan or not (items or _is_blank(page)))
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
    """Yield each table where its first character stands, and each line without what is in tables."""
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


def _stated(pdf: PdfDocument, name: str) -> str:
    key = name.encode() + b"\x00"
    return _text_of(lambda buffer, size: raw.FPDF_GetMetaText(pdf, key, buffer, size))


def _language(pdf: PdfDocument) -> str:
    return _text_of(lambda buffer, size: raw.FPDFCatalog_GetLanguage(pdf, buffer, size))


def _text_of(read: Callable[..., int]) -> str:
    """Return what a function of PDFium writes, which ends in NUL and need not be whole characters."""
    size = read(None, 0)
    buffer = (c_ushort * (size // 2))()
    read(buffer, size)
    return bytes(buffer).decode("utf-16-le", errors="replace").rstrip("\x00")


def _ranges(pages: Sequence[int]) -> str:
    """Write 0-based pages as a reader counts them, such as "3, 7-9", with an end that fits an attribute."""
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
