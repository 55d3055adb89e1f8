"""Writes small PDFs, good and bad."""

from collections.abc import Iterable, Mapping, Sequence

_FONTS = b"/Font<</F1 3 0 R/F2 4 0 R/F3<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>>>"
_WRONG_PASSWORD = (
    b"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<" + b"41" * 32 + b">/U<" + b"42" * 32 + b">>>/ID[<41><41>]"
)


def shown(left: float, height: float, text: str, *, size: float = 11, bold: bool = False, fixed: bool = False) -> bytes:
    """Give the operators that show a text."""
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("cp1252")
    return b"BT /F%d %g Tf %g %g Td (%s) Tj ET\n" % (3 if fixed else 1 + bold, size, left, height, escaped)


def shown_lines(
    texts: Iterable[str], *, left: float = 72, top: float = 750, step: float = 14, fixed: bool = False
) -> bytes:
    """Give the operators that show lines below each other."""
    return b"".join(shown(left, top - step * number, text, fixed=fixed) for number, text in enumerate(texts))


def hidden(left: float, height: float, text: str, *, size: float = 11) -> bytes:
    """Give the operators of a text that is not drawn, as OCR lays it over a scan: in a font of one width."""
    return b"3 Tr\n" + shown(left, height, text, size=size, fixed=True) + b"0 Tr\n"


def pictured(width: float = 595, height: float = 842) -> bytes:
    """Give the operators that show a picture."""
    return b"q %g 0 0 %g 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x80 EI Q\n" % (width, height)


def ruled(columns: Sequence[float], rows: Sequence[float]) -> bytes:
    """Give the operators that draw a grid."""
    level = [(columns[0], height, columns[-1], height) for height in rows]
    upright = [(column, rows[0], column, rows[-1]) for column in columns]
    return b"".join(b"%g %g m %g %g l S\n" % rule for rule in [*level, *upright])


def pdf(
    *pages: bytes,
    info: str = "",
    bookmarks: Sequence[tuple[str, int]] = (),
    fields: Sequence[bytes] = (),
    locked: bool = False,
    rotation: int = 0,
    crop: str = "",
    attached: Sequence[str] = (),
) -> bytes:
    """Write a PDF of pages, each given by its operators; bookmarks are titles with their 0-based page.

    fields: of a form on each page, without the brackets; crop: the box that is shown of each page;
    attached: names of embedded files.
    """
    first_page = 7 + len(bookmarks)
    filled = range(first_page + 2 * len(pages), first_page + 2 * len(pages) + len(fields))
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R/Outlines 5 0 R/Lang(de-DE)/AcroForm<</Fields[%s]>>%s>>"
        % (_references(filled), _embedded(attached)),
        2: b"<</Type/Pages/Count %d/Kids[%s]>>"
        % (len(pages), b" ".join(b"%d 0 R" % (first_page + 2 * number) for number in range(len(pages)))),
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        4: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>",
        6: b"<</Title(%s)>>" % info.encode(),
        5: b"<</First 7 0 R/Last %d 0 R/Count %d>>" % (6 + len(bookmarks), len(bookmarks)) if bookmarks else b"<<>>",
    }
    for number, (title, page) in enumerate(bookmarks):
        after = b"/Next %d 0 R" % (8 + number) if number + 1 < len(bookmarks) else b""
        objects[7 + number] = b"<</Title<feff%s>/Parent 5 0 R/Dest[%d 0 R/Fit]%s>>" % (
            title.encode("utf-16-be").hex().encode(),
            first_page + 2 * page,
            after,
        )
    for number, content in enumerate(pages):
        own = first_page + 2 * number
        objects[own] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]%s/Rotate %d/Contents %d 0 R/Resources<<%s>>/Annots[%s]>>"
            % (
                b"/CropBox[%s]" % crop.encode() if crop else b"",
                rotation,
                own + 1,
                _FONTS,
                _references(filled),
            )
        )
        objects[own + 1] = _stream(content)
    objects |= {
        number: b"<</Type/Annot/Subtype/Widget%s>>" % field for number, field in zip(filled, fields, strict=True)
    }
    return written(objects, trailer=_WRONG_PASSWORD if locked else b"")


def _embedded(names: Sequence[str]) -> bytes:
    files = (f"<feff{name.encode('utf-16-be').hex()}>" for name in names)
    entries = "".join(f"{file}<</Type/Filespec/F{file}/UF{file}/EF<</F 6 0 R>>>>" for file in files)
    return f"/Names<</EmbeddedFiles<</Names[{entries}]>>>>".encode() if names else b""


def pdf_with_font(page: bytes, font: bytes, more: bytes = b"") -> bytes:
    """Write a PDF of one page with a font F4 of one's own, which refers to the object 7, given by `more`."""
    return written(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Count 1/Kids[5 0 R]>>",
            3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
            4: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>",
            5: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 8 0 R/Resources<<%s>>>>"
            % _FONTS.replace(b"/F3", b"/F4 %s/F3" % font),
            6: b"<<>>",
            7: more or b"<<>>",
            8: _stream(page),
        }
    )


def mapping(texts: Mapping[bytes, str]) -> bytes:
    """Give the object that states the text of each character of a font."""
    lines = b"".join(
        b"<%s><%s>\n" % (code.hex().encode(), text.encode("utf-16-be", errors="surrogatepass").hex().encode())
        for code, text in texts.items()
    )
    states = b"begincmap 1 begincodespacerange<00><FF>endcodespacerange %d beginbfchar\n%sendbfchar endcmap"
    return _stream(states % (len(texts), lines))


def _stream(content: bytes) -> bytes:
    return b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)


def _references(numbers: Iterable[int]) -> bytes:
    return b" ".join(b"%d 0 R" % number for number in numbers)


def written(objects: dict[int, bytes], *, trailer: bytes = b"") -> bytes:
    """Write the objects of a PDF, numbered from 1."""
    content = b"%PDF-1.7\n"
    offsets = []
    for number in sorted(objects):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        content
        + b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R/Info 6 0 R%s>>\nstartxref\n%d\n%%%%EOF"
        % (
            len(objects) + 1,
            table,
            len(objects) + 1,
            trailer,
            len(content),
        )
    )
