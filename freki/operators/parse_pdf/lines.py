"""The lines of a page of a PDF."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from ctypes import c_int, create_string_buffer
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

from pypdfium2 import PdfPage, PdfTextPage, raw

_BOLD_WEIGHT = 600
_BOLD_NAME = re.compile(rb"[Bb]old|Black|Heavy|Demi")
_FIXED_NAME = re.compile(rb"Mono|Courier|Consol|Menlo|Typewriter|CMTT|SourceCode|FiraCode")
_FIXED_FLAG = 1
_FONT_NAME_BYTES = 128
_SAMPLES = 5
"""Number of characters of a line whose font is checked."""
_MAX_SPACES = 200
_MAX_PAGE_SAMPLES = 100
_MAX_LINE_SAMPLES = 20
_MAX_UNKNOWN_SHARE = 0.3
_LINE_ENDS = {10, 13}
_MAX_CODE_POINT = 0x10FFFF
_FIRST_HALVES, _SECOND_HALVES = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_CELL_GAP = 1.2
"""Minimum gap between cells, relative to the font size."""
_LEAST_CELL_GAP = 6.0
"""Minimum gap between cells, in points."""
_WORD_GAP = 0.15
"""Minimum gap between words, relative to the lower of the characters around it."""
_LARGEST_WORD_GAP = 0.35
"""Maximum gap between words, or overlap, where PDFium ends a line that goes on; the smallest of columns are wider."""
_DESCENT = 0.2
"""Usual share of a character's box below its base line."""
_LEAST_SHIFT = 0.15
"""Minimum distance of base lines of a raised or lowered digit and a larger one, relative to the height of that."""
_MAX_SHIFTED_HEIGHT = 0.9
_BULLET = re.compile(r"[-•–◦▪*\ue000-\uf8ff]\Z|\(?\d{1,3}[.)]\Z|\(?[a-z]\)\Z")
_SOFT_HYPHENS = "\u00ad\ufffe\x02"
_HYPHENS = f"-\u2010{_SOFT_HYPHENS}"
_LONGEST_PARTED = 200
"""Maximum characters before a line that are searched for a word that it goes on with."""
_MARKS = re.compile(rf"[{_SOFT_HYPHENS}](?!\Z)")
"""Soft hyphens that are not at the end of a line."""
_PARTED = re.compile(rf"((?:[^\W_]+-)*[^\W_]+)[{re.escape(_HYPHENS)}]\Z")
_FIRST_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_HYPHENATED = re.compile(r"[A-ZÄÖÜ]{2,}|[^\W\d_]|.*\d")
"""Text before a hyphen that belongs to the word, as in EU-weit, U-förmig and 17-jährig."""
_SUSPENDED = re.compile(r"(?:und|oder|bzw|sowie|als|noch|bis|and|or|to)\b")

Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points, in reading orientation."""


class Glyph(NamedTuple):
    """A visible character."""

    text: str
    place: int
    """Index among the characters of its page."""
    spaced: bool
    """Whether white space precedes it."""
    left: float
    bottom: float
    right: float
    top: float


class TextLine(NamedTuple):
    """A line of text."""

    text: str
    page: int
    """0-based."""
    size: float
    """Size of its prevailing font in points, rounded to halves."""
    bold: bool
    left: float
    bottom: float
    right: float
    top: float
    cells: tuple[str, ...]
    """The text, split at wide gaps."""
    starts: tuple[float, ...]
    """Left edge of each cell."""
    pitch: float = 0.0
    """Distance of characters in points for monospaced text; else 0."""
    drawn: bool = True
    """Whether it is seen; what OCR lays over a scan is not."""


def upright(page: PdfPage) -> Callable[[Box], Box]:
    """Return the function that rotates boxes to the reading orientation of the page."""
    turns: dict[int, Callable[[Box], Box]] = {
        90: lambda box: (box[1], -box[2], box[3], -box[0]),
        180: lambda box: (-box[2], -box[3], -box[0], -box[1]),
        270: lambda box: (-box[3], box[0], -box[1], box[2]),
    }
    return turns.get(page.get_rotation(), lambda box: box)


def is_within(glyph: Glyph, shown: Box) -> bool:
    """Return whether the middle of a character is in what is shown of its page."""
    left, bottom, right, top = shown
    return left <= (glyph.left + glyph.right) / 2 <= right and bottom <= (glyph.bottom + glyph.top) / 2 <= top


def glyphs(text_page: PdfTextPage, turn: Callable[[Box], Box], shown: Box) -> Iterator[list[Glyph]]:
    """Yield the characters of each line in the order of the page content, in which columns are separate.

    shown: what is shown of the page; characters that are cut off are left out.
    """
    line: list[Glyph] = []
    spaced = ended = False
    for index, code in _code_points(text_page):
        # 0 is a character without mapping in its font.
        text = chr(code) if 0 < code <= _MAX_CODE_POINT else ""
        glyph = Glyph(text, index, spaced, *turn(text_page.get_charbox(index, loose=True))) if text.strip() else None
        if glyph and is_within(glyph, shown):
            # PDFium omits the line end after a hyphen, and ends lines around raised signs.
            if line and ended and abs(gap := _gap(line[-1], glyph)) < _LARGEST_WORD_GAP:
                glyph = glyph._replace(spaced=gap > _WORD_GAP)
            elif line and (ended or _is_next_line(glyph, line[-1])):
                yield line
                line = []
            line.append(glyph._replace(spaced=True) if line and _is_other_number(line[-1], glyph) else glyph)
            ended = False
        ended = ended or code in _LINE_ENDS
        spaced = code in _LINE_ENDS or glyph is None
    yield from [line] if line else []


def _is_other_number(before: Glyph, glyph: Glyph) -> bool:
    """Return whether a digit is that of a note or power beside a number, or of a number behind one."""
    if not (before.text.isdigit() and glyph.text.isdigit()) or glyph.left < (before.left + before.right) / 2:
        return False
    small, large = sorted((before, glyph), key=lambda each: each.top - each.bottom)
    height = large.top - large.bottom
    is_small = small.top - small.bottom <= _MAX_SHIFTED_HEIGHT * height
    return is_small and abs(_base_line(small) - _base_line(large)) >= _LEAST_SHIFT * height


def _base_line(glyph: Glyph) -> float:
    return glyph.bottom + _DESCENT * (glyph.top - glyph.bottom)


def _code_points(text_page: PdfTextPage) -> Iterator[tuple[int, int]]:
    """Yield index and code point of each character; PDFium gives one beyond 16 bits as two, in halves.

    The halves of a pair are at the same place; a half without the other is 0.
    """
    codes = [raw.FPDFText_GetUnicode(text_page, index) for index in range(text_page.count_chars())]
    for index, (before, code, after) in enumerate(zip([0, *codes], codes, [*codes[1:], 0], strict=False)):
        if code in _FIRST_HALVES and after in _SECOND_HALVES:
            yield index, 0x10000 + (code - _FIRST_HALVES[0] << 10) + after - _SECOND_HALVES[0]
        elif code not in _SECOND_HALVES or before not in _FIRST_HALVES:
            yield index, 0 if code in _FIRST_HALVES or code in _SECOND_HALVES else code


def _gap(before: Glyph, glyph: Glyph) -> float:
    """Return the gap between characters relative to the lower one; infinity unless they stand beside each other."""
    height = min(glyph.top - glyph.bottom, before.top - before.bottom)
    shared = min(glyph.top, before.top) - max(glyph.bottom, before.bottom)
    return (glyph.left - before.right) / height if 2 * shared > height > 0 else inf


def is_readable(text_page: PdfTextPage) -> bool:
    """Return whether the fonts of a page map to characters; otherwise the text is garbage."""
    count = text_page.count_chars()
    samples = range(0, count, max(1, count // _MAX_PAGE_SAMPLES))
    return sum(_is_unknown(text_page, index) for index in samples) <= _MAX_UNKNOWN_SHARE * len(samples)


def is_line_readable(text_page: PdfTextPage, line: Sequence[Glyph]) -> bool:
    """Return the same of a line, such as a heading in a font of its own."""
    samples = line[:: max(1, len(line) // _MAX_LINE_SAMPLES)]
    return sum(_is_unknown(text_page, glyph.place) for glyph in samples) <= _MAX_UNKNOWN_SHARE * len(samples)


def _is_unknown(text_page: PdfTextPage, index: int) -> bool:
    code = raw.FPDFText_GetUnicode(text_page, index)
    unnamed = code == 0 or (code < ord(" ") and chr(code) not in "\t\n\r\x02")
    return unnamed or raw.FPDFText_HasUnicodeMapError(text_page, index) == 1


def _is_next_line(glyph: Glyph, before: Glyph) -> bool:
    """Return whether a character is below the one before, or elsewhere behind a hyphen, as in the next column."""
    if before.text in _SOFT_HYPHENS and _gap(before, glyph) == inf:
        return True
    return glyph.top <= before.bottom + (before.top - before.bottom) / 4 and glyph.left < before.left


def line_of(text_page: PdfTextPage, line: Sequence[Glyph], page: int) -> TextLine:
    """Return the line of at least one glyph."""
    samples = [glyph.place for glyph in line[:: max(1, len(line) // _SAMPLES)]]
    size = Counter(round(2 * _height(text_page, index)) / 2 for index in samples).most_common(1)[0][0]
    fonts = [_font(text_page, index) for index in samples]
    fixed = sum(font.fixed for font in fonts) > len(samples) / 2
    pitch = median(glyph.right - glyph.left for glyph in line) if fixed else 0.0
    cells = (
        [line] if pitch else _with_bullet([list(cell) for cell in _cells(line, max(_CELL_GAP * size, _LEAST_CELL_GAP))])
    )
    return TextLine(
        text=_spread(line, pitch) if pitch else " ".join(words(cell) for cell in cells),
        page=page,
        size=size,
        bold=sum(font.bold for font in fonts) > len(samples) / 2,
        left=min(glyph.left for glyph in line),
        bottom=min(glyph.bottom for glyph in line),
        right=max(glyph.right for glyph in line),
        top=max(glyph.top for glyph in line),
        cells=tuple(map(words, cells)),
        starts=tuple(cell[0].left for cell in cells),
        pitch=pitch,
        drawn=sum(font.drawn for font in fonts) > len(samples) / 2,
    )


def _with_bullet(cells: list[list[Glyph]]) -> list[list[Glyph]]:
    """Join a bullet with the following cell."""
    if len(cells) > 1 and _BULLET.match(words(cells[0])):
        cells[:2] = [cells[0] + [cells[1][0]._replace(spaced=True), *cells[1][1:]]]
    return cells


def _spread(line: Sequence[Glyph], pitch: float) -> str:
    """Return the text of a monospaced line with its displayed spaces."""
    text = line[0].text
    for before, glyph in pairwise(line):
        gap = round((glyph.left - before.right) / pitch)
        text += " " * min(max(gap, int(glyph.spaced)), _MAX_SPACES) + glyph.text
    return _MARKS.sub("", text)


def words(line: Iterable[Glyph]) -> str:
    """Return the text of a line without soft hyphens."""
    text = "".join(f" {glyph.text}" if glyph.spaced else glyph.text for glyph in line)
    return _MARKS.sub("", text.strip())


def vocabulary(texts: Iterable[str]) -> frozenset[str]:
    """Return the words within lines, in lower case."""
    return frozenset(word.casefold() for text in texts for word in _FIRST_WORD.findall(text)[:-1])


def joined(lines: Iterable[str], known: Container[str] = ()) -> str:
    """Join lines by spaces, and hyphenated words without."""
    return "".join(with_seams(lines, known))


def extended(text: str, line: str) -> str:
    """Return a text with one more line; for many, `joined` takes linear time."""
    return joined((text, line))


def with_seams(lines: Iterable[str], known: Container[str] = ()) -> list[str]:
    """Return the lines, each ending as before the next one: in a space, a hyphen, or in neither within a word.

    A hyphen at the end of a line is kept if it belongs to the word: before a capital or a digit, after a single letter,
    a number or capitals, and if `known` contains the word with it but not without.
    """
    ended: list[str] = []
    before = ""
    for line in lines:
        if ended and ended[-1]:
            seam = _seam(before, line, known)
            ended[-1] = ended[-1][:-1] + seam
            before = before[:-1] + seam
        ended.append(line)
        before = (before + line)[-_LONGEST_PARTED:]
    return ended


def _seam(text: str, line: str, known: Container[str]) -> str:
    """Return what the last character of a text becomes before a line."""
    last = text[-1]
    parted, following = _PARTED.search(text) if last in _HYPHENS else None, _FIRST_WORD.match(line)
    if parted and following and not _SUSPENDED.match(line):
        before, after = parted.group(1), following.group()
        both = (f"{before}-{after}".casefold(), f"{before}{after}".casefold())
        keeps = not after[0].islower() or _HYPHENATED.fullmatch(before) or (both[0] in known and both[1] not in known)
        return "-" if keeps else ""
    return "- " if last in _SOFT_HYPHENS else f"{last} "


def _cells(line: Sequence[Glyph], gap: float) -> Iterator[Sequence[Glyph]]:
    start = 0
    for index, (before, glyph) in enumerate(pairwise(line), start=1):
        if glyph.left - before.right > gap or before.left - glyph.right > gap:
            yield line[start:index]
            start = index
    yield line[start:]


class _Font(NamedTuple):
    bold: bool
    fixed: bool
    """Whether it is monospaced."""
    drawn: bool


def _font(text_page: PdfTextPage, index: int) -> _Font:
    """Return the font of a character, also by its name, since fonts of Chromium state neither weight nor pitch.

    That of text which is not drawn, as programs for OCR lay it over a scan, says nothing of the look of the scan:
    Tesseract's has one width, which is stretched for each word.
    """
    shown = raw.FPDFText_GetTextObject(text_page, index)
    if shown and raw.FPDFTextObj_GetTextRenderMode(shown) == raw.FPDF_TEXTRENDERMODE_INVISIBLE:
        return _Font(bold=False, fixed=False, drawn=False)
    name, flags = create_string_buffer(_FONT_NAME_BYTES), c_int()
    raw.FPDFText_GetFontInfo(text_page, index, name, _FONT_NAME_BYTES, flags)
    return _Font(
        bold=bool(_BOLD_NAME.search(name.value)) or raw.FPDFText_GetFontWeight(text_page, index) >= _BOLD_WEIGHT,
        fixed=bool(_FIXED_NAME.search(name.value)) or bool(flags.value & _FIXED_FLAG),
        drawn=True,
    )


def _height(text_page: PdfTextPage, index: int) -> float:
    """Return the displayed size of a font: its nominal size times the scale of the text matrix."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(text_page, index, matrix)
    scale = (matrix.c**2 + matrix.d**2) ** 0.5
    return float(raw.FPDFText_GetFontSize(text_page, index) * (scale or 1.0))
