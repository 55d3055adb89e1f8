"""Files with plain content, for tests of what becomes of files."""

from tests.unit.packages import docx, paragraph
from tests.unit.pdfs import pdf, pictured, shown, shown_lines


def pdf_of(*pages: str | None, locked: bool = False) -> bytes:
    """Print pages line by line, the first line of each as a heading; None is a scan, a locked file wants a password."""
    return pdf(*map(_page, pages), locked=locked)


def docx_of(heading: str, *paragraphs: str) -> bytes:
    """Write paragraphs under a heading."""
    return docx(paragraph(heading, '<w:outlineLvl w:val="0"/>') + "".join(map(paragraph, paragraphs)))


def _page(text: str | None) -> bytes:
    if text is None:
        return pictured()
    heading, *lines = text.splitlines() or [""]
    return shown(72, 790, heading, size=20) + shown_lines(lines)
