"""The lines of a PDF's page, as they are printed."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import c_int, create_string_buffer
from itertools import pairwise
from typing import NamedTuple

from pypdfium2 import PdfPage, PdfTextPage, raw

_BOLD_WEIGHT = 600
_BOLD_NAME = re.compile(rb"[Bb]old|Black|Heavy|Demi")
_FONT_NAME_BYTES = 128
_SAMPLES = 5
"""Characters of a line whose font is looked at."""
_LINE_ENDS = {10, 13}
_MAX_CODE_POINT = 0x10FFFF
_CELL_GAP = 1.2
"""Times the size of the font: words of one cell are nearer to each other."""
_LEAST_CELL_GAP = 6.0
"""Points."""
_BULLET = re.compile(r"[-•–◦▪*\ue000-\uf8ff]\Z|\(?\d{1,3}[.)]\Z|\(?[a-z]\)\Z")
_HYPHENS = "-\u00ad\u2010\ufffe\x02"
_MARKS = re.compile("[\u00ad\ufffe\x02](?!\\Z)")
"""Where a word may be parted, and is not."""
_SUSPENDED = re.compile(r"(?:und|oder|bzw|sowie|als|noch|bis|and|or|to)\b")

Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points, as the page is read."""


class Glyph(NamedTuple):
    """A character that is seen."""

    text: str
    place: int
    """Number among the characters of its page."""
    spaced: bool
    """Whether white space stands before it."""
    left: float
    bottom: float
    right: float
    top: float


class Line(NamedTuple):
    """A line of text."""

    text: str
    page: int
    """0-based."""
    size: float
    """Points, to the half, of the font that most of it has."""
    bold: bool
    left: float
    bottom: float
    right: float
    top: float
    cells: tuple[str, ...]
    """The text, cut at wide gaps; one where there are none."""
    starts: tuple[float, ...]
    """Left edge of each cell."""


def upright(page: PdfPage) -> Callable[[Box], Box]:
    """Return what turns a box as the page is turned for reading."""
    turns: dict[int, Callable[[Box], Box]] = {
        90: lambda box: (box[1], -box[2], box[3], -box[0]),
        180: lambda box: (-box[2], -box[3], -box[0], -box[1]),
        270: lambda box: (-box[3], box[0], -box[1], box[2]),
    }
    return turns.get(page.get_rotation(), lambda box: box)


def glyphs(text_page: PdfTextPage, turn: Callable[[Box], Box]) -> Iterator[list[Glyph]]:
    """Yield the characters of each line, in PDFium's order: that of the page's content, so columns are apart."""
    line: list[Glyph] = []
    spaced = False
    for index in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(text_page, index)
        # 0 stands for a character that its font does not name.
        text = chr(code) if 0 < code <= _MAX_CODE_POINT else ""
        if code in _LINE_ENDS:
            yield from [line] if line else []
            line = []
        elif text.strip():
            glyph = Glyph(text, index, spaced, *turn(text_page.get_charbox(index, loose=True)))
            # PDFium leaves out the line end behind a hyphen.
            if line and _is_below(glyph, line[-1]):
                yield line
                line = []
            line.append(glyph)
        spaced = code in _LINE_ENDS or not text.strip()
    yield from [line] if line else []


def _is_below(glyph: Glyph, before: Glyph) -> bool:
    return glyph.top <= before.bottom + (before.top - before.bottom) / 4 and glyph.left < before.left


def line_of(text_page: PdfTextPage, line: Sequence[Glyph], page: int) -> Line:
    """Describe a line of glyphs, at least one."""
    samples = [glyph.place for glyph in line[:: max(1, len(line) // _SAMPLES)]]
    size = Counter(round(2 * _height(text_page, index)) / 2 for index in samples).most_common(1)[0][0]
    cells = [list(cell) for cell in _cells(line, max(_CELL_GAP * size, _LEAST_CELL_GAP))]
    if len(cells) > 1 and _BULLET.match(words(cells[0])):
        cells[:2] = [cells[0] + [cells[1][0]._replace(spaced=True), *cells[1][1:]]]
    return Line(
        text=" ".join(words(cell) for cell in cells),
        page=page,
        size=size,
        bold=sum(_is_bold(text_page, index) for index in samples) > len(samples) / 2,
        left=min(glyph.left for glyph in line),
        bottom=min(glyph.bottom for glyph in line),
        right=max(glyph.right for glyph in line),
        top=max(glyph.top for glyph in line),
        cells=tuple(map(words, cells)),
        starts=tuple(cell[0].left for cell in cells),
    )


def words(line: Iterable[Glyph]) -> str:
    """Return the text of a line, without the marks of where words might have been parted."""
    text = "".join(f" {glyph.text}" if glyph.spaced else glyph.text for glyph in line)
    return _MARKS.sub("", text.strip())


def joined(lines: Iterable[str]) -> str:
    """Join lines by spaces; a word that a hyphen parts is whole again, where a small letter goes on."""
    text = ""
    for line in lines:
        text = extended(text, line)
    return text


def extended(text: str, line: str) -> str:
    """Return a text with one more line."""
    parted = text[-1:] in _HYPHENS and text[-2:-1].isalpha() and line[:1].islower()
    if text and parted and not _SUSPENDED.match(line):
        return text[:-1] + line
    if text and text[-1] in "\u00ad\ufffe\x02":
        text = text[:-1] + "-"
    return f"{text} {line}" if text else line


def _cells(line: Sequence[Glyph], gap: float) -> Iterator[Sequence[Glyph]]:
    start = 0
    for index, (before, glyph) in enumerate(pairwise(line), start=1):
        if glyph.left - before.right > gap or before.left - glyph.right > gap:
            yield line[start:index]
            start = index
    yield line[start:]


def _is_bold(text_page: PdfTextPage, index: int) -> bool:
    """Say whether a character is bold: by the name of its font too, because Chromium's fonts state no weight."""
    name, flags = create_string_buffer(_FONT_NAME_BYTES), c_int()
    raw.FPDFText_GetFontInfo(text_page, index, name, _FONT_NAME_BYTES, flags)
    return bool(_BOLD_NAME.search(name.value)) or raw.FPDFText_GetFontWeight(text_page, index) >= _BOLD_WEIGHT


def _height(text_page: PdfTextPage, index: int) -> float:
    """Return the size of a font as it is seen: as it is named, times the scale of its text's matrix."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(text_page, index, matrix)
    scale = (matrix.c**2 + matrix.d**2) ** 0.5
    return float(raw.FPDFText_GetFontSize(text_page, index) * (scale or 1.0))
