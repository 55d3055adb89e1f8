"""The readable text and outline of an ODP."""

from xml.etree.ElementTree import Element

from freki.operators.parse_office.odf import Content, OdfReader, content_of, joined
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES
from freki.schemas.outline import ParsedDocument, assemble

_PAGE = "{draw}page"
_RUNNING = {"header", "footer", "date-time", "page-number"}


def parse_odp(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the slides of an ODP, each a page: its title as a heading, then its shapes in their order, then its notes.

    Hidden slides are left out but counted; hidden shapes, dates, footers and slide numbers are left out, and so are
    charts and pictures. Raises UnreadableContent for files that are damaged, encrypted, larger than
    `max_unpacked_bytes` unpacked, or nested too deep.
    """
    with content_of(content, "presentation", max_unpacked_bytes=max_unpacked_bytes) as document:
        reader = OdfReader(document)
        slides = document.body.findall(_PAGE)
        for page, slide in enumerate(slides):
            reader.writer.page = page
            if not _is_hidden(slide, document):
                _slide(slide, reader)
            reader.writer.close()
        title, attributes = document.package.properties()
    return assemble(reader.writer.close(), pages=len(slides), title=title, attributes=attributes)


def _is_hidden(slide: Element, document: Content) -> bool:
    style = document.styles.get(slide.get("{draw}style-name", ""))
    look = None if style is None else style.find("{style}drawing-page-properties")
    return look is not None and look.get("{presentation}visibility") == "hidden"


def _slide(slide: Element, reader: OdfReader) -> None:
    shapes = [shape for shape in slide if shape.get("{presentation}class") not in _RUNNING]
    for shape in shapes:
        if shape.get("{presentation}class") == "title":
            reader.writer.heading(joined(shape), 1)
    for shape in shapes:
        if shape.get("{presentation}class") != "title":
            reader.read([shape])
            reader.writer.close()
    for notes in slide.iterfind("{presentation}notes"):
        reader.writer.prose(joined(notes))
