"""Write documents as files, with common libraries."""

import html
from collections.abc import Callable, Iterator, Mapping
from email.message import EmailMessage
from pathlib import Path

import docx
import pptx
from openpyxl import Workbook
from pptx.util import Inches

from bench.formats.truth import Item, Kind, Truth

_LINES_ON_SLIDE = 8
_STYLE = (
    "body{font:11pt serif;text-align:justify}table{border-collapse:collapse}"
    "td,th{border:1px solid #555;padding:2px 4px}h1{font-size:20pt}h2{font-size:16pt}h3{font-size:13pt}"
)
_AROUND = (
    '<nav><a href="/">Start</a></nav><div class="cookie-banner"><p>Cookies?</p></div><main>{}</main>'
    "<footer>Impressum</footer>"
)


def write(truth: Truth, folder: Path) -> Iterator[Path]:
    """Write a document once per format; yield the files."""
    for name, writer in _WRITERS.items():
        path = folder / f"{truth.name}.{name}"
        writer(truth, path)
        yield path


def page(truth: Truth, *, columns: int = 1) -> str:
    """Return a document as an HTML page."""
    body = "\n".join(map(_tagged, truth.items))
    style = f"{_STYLE} body{{columns:{columns}}}" if columns > 1 else _STYLE
    return (
        f"<!doctype html><html lang=de><meta charset=utf-8><title>{html.escape(truth.name)}</title>"
        f"<style>{style}</style><body>{body if columns > 1 else _AROUND.format(body)}"
    )


def _tagged(item: Item) -> str:
    text = html.escape(item.text)
    match item.kind:
        case Kind.HEADING:
            return f"<h{item.level}>{text}</h{item.level}>"
        case Kind.ITEM:
            return f"<ul><li>{text}</li></ul>"
        case Kind.CODE:
            return f"<pre>{text}</pre>"
        case Kind.TABLE:
            rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in item.rows)
            return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"
        case _:
            return f"<p>{text}</p>"


def _docx(truth: Truth, path: Path) -> None:
    document = docx.Document()
    document.core_properties.title = truth.name
    for item in truth.items:
        if item.kind is Kind.HEADING:
            document.add_heading(item.text, item.level)
        elif item.kind is Kind.ITEM:
            document.add_paragraph(item.text, style="List Bullet" if item.level == 1 else "List Bullet 2")
        elif item.kind is Kind.TABLE:
            table = document.add_table(len(item.rows), max(map(len, item.rows)), style="Table Grid")
            for row, cells in zip(table.rows, item.rows, strict=True):
                for cell, text in zip(row.cells, cells, strict=False):
                    cell.text = text
        else:
            document.add_paragraph(item.text)
    document.sections[0].footer.paragraphs[0].text = "Footer"
    document.save(str(path))


def _pptx(truth: Truth, path: Path) -> None:
    deck = pptx.Presentation()
    slide, lines = None, 0
    for item in truth.items:
        if slide is None or item.kind is Kind.HEADING or lines > _LINES_ON_SLIDE:
            slide, lines = deck.slides.add_slide(deck.slide_layouts[1]), 0
            slide.notes_slide.notes_text_frame.text = "Notes"
        lines += 1
        body = slide.placeholders[1].text_frame
        if item.kind is Kind.HEADING:
            slide.shapes.title.text = item.text
        elif item.kind is Kind.TABLE:
            size = (len(item.rows), max(map(len, item.rows)))
            table = slide.shapes.add_table(*size, Inches(1), Inches(3), Inches(8), Inches(2)).table
            for row, cells in enumerate(item.rows):
                for column, text in enumerate(cells):
                    table.cell(row, column).text = text
        elif body.text:
            body.add_paragraph().text = item.text
        else:
            body.text = item.text
    deck.save(str(path))


def _xlsx(truth: Truth, path: Path) -> None:
    book = Workbook()
    sheet = book.active
    sheet.title = "Text"
    for item in truth.items:
        if item.kind is Kind.TABLE:
            table = book.create_sheet(f"Table {len(book.sheetnames)}")
            for row in item.rows:
                table.append(row)
        else:
            sheet.append([item.kind, item.level, "'" + item.text if item.text.startswith("=") else item.text])
    book.save(path)


def _eml(truth: Truth, path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = truth.name, "Jürgen Groß <j@example.org>", "a@example.org"
    mail.set_content("\n\n".join(item.words for item in truth.items))
    mail.add_alternative(page(truth), subtype="html")
    mail.add_attachment("attached", filename="a.txt")
    path.write_bytes(mail.as_bytes())


def _text(encoding: str) -> Callable[[Truth, Path], None]:
    def written(truth: Truth, path: Path) -> None:
        path.write_bytes("\n\n".join(item.words for item in truth.items).encode(encoding, errors="replace"))

    return written


_WRITERS: Mapping[str, Callable[[Truth, Path], None]] = {
    "md": lambda truth, path: path.write_bytes(truth.source.encode()),
    "html": lambda truth, path: path.write_bytes(page(truth).encode()),
    "docx": _docx,
    "pptx": _pptx,
    "xlsx": _xlsx,
    "eml": _eml,
    "utf-16.txt": _text("utf-16"),
    "cp1252.txt": _text("cp1252"),
    "mac-roman.txt": _text("mac-roman"),
    "cp850.txt": _text("cp850"),
}
