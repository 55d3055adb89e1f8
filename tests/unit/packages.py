"""Writes small Office files, good and bad."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile

from openpyxl import Workbook

_OOXML = "http://schemas.openxmlformats.org"
_RELATIONS = f'<Relationships xmlns="{_OOXML}/package/2006/relationships">{{}}</Relationships>'
_OFFICE = f"{_OOXML}/officeDocument/2006/relationships"
_NAMESPACES = (
    f'xmlns:w="{_OOXML}/wordprocessingml/2006/main" xmlns:a="{_OOXML}/drawingml/2006/main" '
    f'xmlns:p="{_OOXML}/presentationml/2006/main" xmlns:r="{_OFFICE}" '
    f'xmlns:mc="{_OOXML}/markup-compatibility/2006"'
)
_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_ODF_NAMESPACES = " ".join(
    f'xmlns:{name}="{_ODF}:{space}:1.0"'
    for name, space in (
        *((name, name) for name in ("office", "text", "table", "style", "meta", "manifest", "presentation", "form")),
        ("draw", "drawing"),
        ("svg", "svg-compatible"),
        ("fo", "xsl-fo-compatible"),
    )
)
_CORE = (
    f'<cp:coreProperties xmlns:cp="{_OOXML}/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">{}</cp:coreProperties>'
)
_CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="EPUB/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
_METADATA = (
    "<dc:title>Handbuch der Fähre</dc:title><dc:creator>Ada Kühne</dc:creator><dc:language>de</dc:language>"
    "<dc:date>2024-05-01</dc:date><dc:description>Kaufen Sie jetzt!</dc:description>"
    '<meta property="dcterms:modified">2026-01-31T09:30:00Z</meta>'
)


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    """Write an archive."""
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as packed:
        for name, part in parts.items():
            packed.writestr(name, part)
    return content.getvalue()


def relations(**targets: str) -> str:
    """Write relations: the id of each is its kind, such as `styles`, with a number behind it where there are more."""
    return _RELATIONS.format(
        "".join(
            f'<Relationship Id="{name}" Type="{_OFFICE}/{name.rstrip("0123456789")}" Target="{target}"/>'
            for name, target in targets.items()
        )
    )


def docx(body: str, *, declared: str = "", parts: Mapping[str, str] | None = None, core: str = "") -> bytes:
    """Write a DOCX with the elements of its body; `declared` comes before the root."""
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(officeDocument="word/document.xml").replace(
                "</Relationships>",
                f'<Relationship Id="c" Type="{_OOXML}/package/2006/relationships/metadata/core-properties" '
                'Target="docProps/core.xml"/></Relationships>',
            ),
            "docProps/core.xml": _CORE.format(core),
            "word/document.xml": f"{declared}<w:document {_NAMESPACES}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": relations(styles="styles.xml", footnotes="/word/footnotes.xml"),
            **(parts or {}),
        }
    )


def word(tag: str, inner: str) -> str:
    """Write the root of a part of a DOCX."""
    return f"<w:{tag} {_NAMESPACES}>{inner}</w:{tag}>"


def paragraph(text: str, properties: str = "") -> str:
    """Write a paragraph of a DOCX."""
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def word_table(*rows: Sequence[str]) -> str:
    """Write a table of a DOCX."""
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def odt(text: str, *, declared: str = "", styles: str = "", parts: Mapping[str, str] | None = None) -> bytes:
    """Write an ODT with the elements of its text."""
    return opendocument("text", text, declared=declared, styles=styles, parts=parts)


def opendocument(
    kind: str, body: str, *, declared: str = "", styles: str = "", parts: Mapping[str, str] | None = None
) -> bytes:
    """Write a document of a kind: `text`, `presentation` or `spreadsheet`."""
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"{declared}<office:document-content {_ODF_NAMESPACES}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body>"
            "</office:document-content>",
            **(parts or {}),
        }
    )


def odf_styles(inner: str) -> str:
    """Write the common styles of an OpenDocument file."""
    return f"<office:document-styles {_ODF_NAMESPACES}><office:styles>{inner}</office:styles></office:document-styles>"


def manifest(inner: str) -> str:
    """Write the manifest of an ODT."""
    return f"<manifest:manifest {_ODF_NAMESPACES}>{inner}</manifest:manifest>"


def pptx(*slides: str, parts: Mapping[str, str] | None = None, hidden: Sequence[int] = ()) -> bytes:
    """Write a PPTX with the shapes of its slides; hidden ones are named by their 0-based number."""
    ids = "".join(f'<p:sldId id="{256 + number}" r:id="slide{number}"/>' for number in range(len(slides)))
    files = {
        f"ppt/slides/slide{number}.xml": f'<p:sld {_NAMESPACES} show="{int(number not in hidden)}"><p:cSld><p:spTree>'
        f"{shapes}</p:spTree></p:cSld></p:sld>"
        for number, shapes in enumerate(slides)
    }
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(officeDocument="ppt/presentation.xml"),
            "ppt/presentation.xml": f"<p:presentation {_NAMESPACES}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(
                **{f"slide{number}": f"slides/slide{number}.xml" for number in range(len(slides))}
            ),
            **files,
            **(parts or {}),
        }
    )


def shape(*paragraphs: str, kind: str | None = None) -> str:
    """Write a shape of a PPTX; a kind makes it a placeholder."""
    placeholder = "" if kind is None else f'<p:ph type="{kind}"/>'
    lines = "".join(f"<a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p>" for text in paragraphs)
    return f"<p:sp><p:nvSpPr><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:txBody>{lines}</p:txBody></p:sp>"


def slide_table(*rows: Sequence[str]) -> str:
    """Write a table of a PPTX."""
    cells = (
        "".join(f"<a:tc><a:txBody><a:p><a:r><a:t>{escape(cell)}</a:t></a:r></a:p></a:txBody></a:tc>" for cell in row)
        for row in rows
    )
    return "<p:graphicFrame><a:tbl>" + "".join(f"<a:tr>{row}</a:tr>" for row in cells) + "</a:tbl></p:graphicFrame>"


def notes(text: str) -> str:
    """Write the notes of a slide."""
    return f"<p:notes {_NAMESPACES}><p:cSld><p:spTree>{shape(text, kind='body')}</p:spTree></p:cSld></p:notes>"


def xlsx(sheets: Mapping[str, Sequence[Sequence[object]]], *, hidden: Sequence[str] = ()) -> bytes:
    """Write an XLSX with the rows of its sheets."""
    workbook = Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
        sheet.sheet_state = "hidden" if name in hidden else "visible"
    content = BytesIO()
    workbook.save(content)
    return content.getvalue()


def epub(
    chapters: Mapping[str, str], *, parts: Mapping[str, str | bytes] | None = None, metadata: str = _METADATA
) -> bytes:
    """Write a book; the order of chapters in the package is not that of reading."""
    items = "".join(
        f'<item id="{number}" href="{name}" media-type="application/xhtml+xml"/>'
        for number, name in reversed(list(enumerate(chapters)))
    )
    spine = "".join(f'<itemref idref="{number}"/>' for number, _ in enumerate(chapters))
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": _CONTAINER,
            "EPUB/book.opf": (
                '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
                f"<metadata>{metadata}</metadata><manifest>{items}"
                '<item id="toc" href="toc.xhtml" media-type="application/xhtml+xml" properties="nav"/></manifest>'
                f'<spine><itemref idref="toc"/>{spine}<itemref idref="gone"/></spine></package>'
            ),
            "EPUB/toc.xhtml": "<html><body><p>Inhalt</p></body></html>",
            **{
                f"EPUB/{name}": f"<!DOCTYPE html><html><head><title>x</title></head><body>{body}</body></html>"
                for name, body in chapters.items()
            },
            **(parts or {}),
        }
    )
