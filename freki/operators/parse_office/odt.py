"""The readable text and outline of an ODT."""

from freki.operators.parse_office.bold import unless_most_are_headings
from freki.operators.parse_office.odf import OdfReader, content_of
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES
from freki.schemas.outline import ParsedDocument, assemble


def parse_odt(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the visible content of an ODT: headings, paragraphs, lists, tables, text boxes, footnotes in place.

    A paragraph of the style "Title" is a heading of level 1. Where there is no heading, short lines in bold that do not
    end like a sentence are: level 1, with a number below. Headings and items have their displayed numbers. A
    table that contains a heading or a table is layout: its parts are separate blocks, and so are those of a list that
    contains a heading. Tracked deletions, hidden text, comments, headers and footers are left out. There are no pages,
    which depend on the renderer. Raises UnreadableContent for files that are damaged, encrypted, larger than
    `max_unpacked_bytes` unpacked, or nested too deep.
    """
    with content_of(content, "text", max_unpacked_bytes=max_unpacked_bytes) as document:
        parts, stated = OdfReader(document).read_all()
        if not any(part.heading_level for part in parts):
            parts, stated = unless_most_are_headings(OdfReader(document, bold=True).read_all()[0], parts)
        title, attributes = document.package.properties()
    return assemble(parts, title=title or stated, attributes=attributes)
