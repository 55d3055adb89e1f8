"""Contents of form fields on a page, and of text typed onto it as an annotation."""

from collections.abc import Callable, Iterator, Sequence
from ctypes import c_ushort

from pypdfium2 import PdfPage, raw

from freki.operators.parse_pdf.lines import Box, Glyph
from freki.schemas.outline import one_line

_MAX_FIELDS = 2000
_WRITTEN = {raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX}
_TICKED = {raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON}
_TICK = "[x]"
_CONTENTS = b"Contents\x00"
_UNSEEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD = 1 << 13
"""Flag of a text field that shows asterisks."""


def fields(page: PdfPage, turn: Callable[[Box], Box]) -> Iterator[Glyph]:
    """Yield the content of each filled field, or text typed onto the page, that is displayed as one glyph."""
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_FIELDS)):
        field = raw.FPDFPage_GetAnnot(page, index)
        try:
            text = one_line(_value(page, field))
            box = raw.FS_RECTF()
            if text and raw.FPDFAnnot_GetRect(field, box):
                left, bottom, right, top = turn((box.left, box.bottom, box.right, box.top))
                yield Glyph(text, 0, spaced=True, left=left, bottom=bottom, right=right, top=top)
        finally:
            raw.FPDFPage_CloseAnnot(field)


def _value(page: PdfPage, field: raw.FPDF_ANNOTATION) -> str:
    if raw.FPDFAnnot_GetFlags(field) & _UNSEEN:
        return ""
    if raw.FPDFAnnot_GetSubtype(field) == raw.FPDF_ANNOT_FREETEXT:
        return _written(lambda buffer, size: raw.FPDFAnnot_GetStringValue(field, _CONTENTS, buffer, size))
    if page.formenv is None:
        return ""
    kind = raw.FPDFAnnot_GetFormFieldType(page.formenv, field)
    if kind in _TICKED:
        return _TICK if raw.FPDFAnnot_IsChecked(page.formenv, field) else ""
    if kind not in _WRITTEN or _is_password(page, kind, field):
        return ""
    return _written(lambda buffer, size: raw.FPDFAnnot_GetFormFieldValue(page.formenv, field, buffer, size))


def _written(read: Callable[..., int]) -> str:
    """Return the text that a function of PDFium writes, which ends in NUL and may be invalid."""
    size = read(None, 0)
    buffer = (c_ushort * (size // 2))()
    read(buffer, size)
    return bytes(buffer).decode("utf-16-le", errors="replace").rstrip("\x00")


def _is_password(page: PdfPage, kind: int, field: raw.FPDF_ANNOTATION) -> bool:
    flags = raw.FPDFAnnot_GetFormFieldFlags(page.formenv, field)
    return kind == raw.FPDF_FORMFIELD_TEXTFIELD and bool(flags & _PASSWORD)


def filled_in(printed: Sequence[list[Glyph]], filled: Iterator[Glyph]) -> list[list[Glyph]]:
    """Insert each field into the line at its height, else after the last line above it."""
    lines = list(printed)
    for field in filled:
        middle = (field.bottom + field.top) / 2
        line = next((line for line in lines if line[0].bottom <= middle <= line[0].top), None)
        if line is None:
            above = [index for index, line in enumerate(lines) if line[0].bottom > middle]
            lines.insert(above[-1] + 1 if above else 0, [field])
            continue
        at = sum(glyph.left < field.left for glyph in line)
        line[at : at + 1] = [field, *(glyph._replace(spaced=True) for glyph in line[at : at + 1])]
    return lines
