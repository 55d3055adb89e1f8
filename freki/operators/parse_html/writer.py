"""Conversion of the nodes of a page to text and blocks."""

import re
from itertools import accumulate

from selectolax.lexbor import LexborNode

from freki.operators.parse_html.columns import Columns
from freki.operators.parse_html.fields import SIGNS, shown
from freki.operators.parse_html.formulas import FORMULA, PARTS, before, behind
from freki.operators.parse_html.labels import ItemLabels
from freki.schemas.outline import Block, BlockKind, header_rows, one_line, visible

_INLINE = {
    *("abbr", "acronym", "bdi", "bdo", "button", "cite", "data", "del", "dfn", "img", "input", "ins", "kbd", "label"),
    *("mark", FORMULA, "q", "rb", "ruby", "samp", "span", "sub", "sup", "time", "var", "wbr"),
    *PARTS,
}
# Classes of text for screen readers only, which stands apart from the text beside it.
_SCREEN_READER_ONLY = re.compile(
    r"(?<![\w-])(?:sr-only|visually-?hidden|screen-reader-text|screenreader-only)(?![\w-])"
)
# Application of functions, and products and sums that only programs see.
_UNSEEN = dict.fromkeys(map(ord, "\u2062\u2063\u2064"), None) | {0x2061: " "}
_KINDS = {
    "ul": BlockKind.LIST,
    "ol": BlockKind.LIST,
    "dl": BlockKind.LIST,
    "menu": BlockKind.LIST,
    "table": BlockKind.TABLE,
    "pre": BlockKind.CODE,
}
HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_ARIA_DEFAULT_LEVEL = 2
_ITEMS = {"li", "dt", "tr"}
_CELLS = {"td", "th"}
_BREAKS = {"br", "sup"}
_BAR = " | "
_STRENGTH = {"": 0, " ": 1, "\n": 2}
_MAX_INDENT = 8
_MAX_LEVEL_DIGITS = 3


class HtmlOutlineWriter:
    """Builds text and blocks from the nodes of a page in order."""

    def __init__(self, layout: set[int]) -> None:
        self.text: list[str] = []
        self.blocks: list[Block] = []
        self._layout = layout
        self._length = 0
        self._containers: list[str] = []
        self._labels: list[ItemLabels] = []
        self._columns = Columns()
        self._formulas = 0
        """Formulas around this place."""
        self._begin_block()

    def _begin_block(self) -> None:
        self._level = 0
        self._buffer: list[str] = []
        # Starts of items and rows, and bars between cells, as places in the buffer.
        self._seams: list[int] = []
        self._bars: dict[int, tuple[int, int]] = {}
        # Seam of the first row with data, not headers alone.
        self._data_row: int | None = None
        # Separator before the next words, and marker if they begin an item or row.
        self._gap = ""
        self._marker: str | None = None

    def enter(self, node: LexborNode) -> None:
        """Process a text or the start of an element."""
        tag = node.tag or ""
        if node.is_text_node:
            self._write(node.text_content or "")
        elif tag in _INLINE or tag in _BREAKS:
            self._enter_inline(node, tag)
        elif self._is_container(node):
            self._part()
            if tag == "table":
                self._columns = Columns()
            self._containers.append(tag)
            self._labels.append(ItemLabels(node))
        elif tag in _ITEMS and self._containers:
            self._item(node)
        elif tag in _CELLS and self._containers:
            if tag == "td" and self._data_row is None:
                self._data_row = len(self._seams) - (self._marker is None)
            self._columns.begin_cell(node)
        else:
            self._part()
            self._level = 0 if self._containers else _heading_level(node)

    def _enter_inline(self, node: LexborNode, tag: str) -> None:
        if tag in _BREAKS:
            self._break_inline(tag)
        elif tag == "input":
            self._write(f" {shown(node)} ")
        elif tag in PARTS:
            self._add_sign(before(node))
        elif tag == FORMULA:
            self._formulas += 1
        elif _is_for_screen_readers(node):
            self._break(" ")

    def _leave_inline(self, node: LexborNode, tag: str) -> None:
        if tag in PARTS:
            self._add_sign(behind(node))
        elif tag == FORMULA:
            self._formulas -= 1
        elif _is_for_screen_readers(node) or (
            tag == "sup" and node.next and (node.next.text_content or "")[:1].isdigit()
        ):
            self._break(" ")

    def leave(self, node: LexborNode) -> None:
        """Process the end of an element."""
        tag = node.tag or ""
        if tag in _INLINE:
            self._leave_inline(node, tag)
            return
        if self._is_container(node):
            if len(self._containers) == 1:
                self.close_block()
            self._containers.pop()
            self._labels.pop()
        if not node.is_text_node and tag != "br" and tag not in _CELLS:
            self._part()

    def close_block(self) -> None:
        """End the current block, if it is not empty."""
        if self._bars:
            for at, count in zip(self._bars, self._columns.counted(self._bars.values()), strict=True):
                self._buffer[at] = _BAR * count
        written = "".join(self._buffer).rstrip()
        text = written.lstrip("\n")
        # A box alone opens a menu, or belongs to a picture.
        if text and not SIGNS.issuperset(text):
            gap = "\n\n" if self.text else ""
            start = self._length + len(gap)
            self.text += [gap, text]
            self._length = start + len(text)
            self.blocks.append(self._block(text, start, offset=start - (len(written) - len(text))))
        self._begin_block()

    def _block(self, text: str, start: int, *, offset: int) -> Block:
        end = start + len(text)
        if self._level:
            return Block(kind=BlockKind.HEADING, start=start, end=end, heading_level=self._level, title=one_line(text))
        if not self._containers:
            return Block(kind=BlockKind.PROSE, start=start, end=end)
        kind = _KINDS[self._containers[0]]
        places = list(accumulate(map(len, self._buffer), initial=offset))
        items = [places[seam] for seam in self._seams]
        header_end = self._header_end(text, start, items) if kind is BlockKind.TABLE else 0
        seams = tuple(item for item in items if start < item < end)
        return Block(kind=kind, start=start, end=end, seams=seams, header_end=header_end)

    def _header_end(self, text: str, start: int, rows: list[int]) -> int:
        """Return the end of the header rows: those without `<td>`, else what `header_rows` makes of the rows."""
        headers = self._data_row or 0
        if not headers:
            ends = [*rows[1:], start + len(text)]
            lines = [text[at - start : end - start] for at, end in zip(rows[:3], ends, strict=False)]
            headers = header_rows([line.split(_BAR) for line in lines])
        return rows[headers] if 0 < headers < len(rows) else 0

    def _is_container(self, node: LexborNode) -> bool:
        return node.tag in _KINDS and node.mem_id not in self._layout

    def _item(self, node: LexborNode) -> None:
        self._break("\n")
        if node.tag == "tr":
            self._columns.begin_row()
        elif "table" in self._containers:
            return
        self._marker = ""
        if node.tag == "li":
            indent = "  " * min(len(self._containers) - 1, _MAX_INDENT)
            self._marker = f"{indent}{self._labels[-1].label(node)} "

    def _part(self) -> None:
        """End a block, a line of a list, or a phrase of a table."""
        if not self._containers:
            self.close_block()
        else:
            self._break(" " if "table" in self._containers else "\n")

    def _break_inline(self, tag: str) -> None:
        if tag == "br":
            self._break("\n")
        # The number of a note, or a power: joined with a number it would be another one.
        elif self._buffer and self._buffer[-1][-1:].isdigit():
            self._break(" ")

    def _break(self, gap: str) -> None:
        if self._buffer and self._marker is None and _STRENGTH[gap] > _STRENGTH[self._gap]:
            self._gap = gap

    def _write(self, text: str) -> None:
        if "pre" in self._containers:
            self._put(visible(text))
            return
        words = one_line(visible(text.replace("\n", " ")))
        if self._formulas:
            self._add_sign(words.translate(_UNSEEN))
            return
        if text[:1].isspace():
            self._break(" ")
        if words:
            self._put(words)
        if text[-1:].isspace():
            self._break(" ")

    def _add_sign(self, text: str) -> None:
        """Write a part of a formula, which is parted from others only where it says so."""
        if text.strip():
            self._put(text.strip() if self._gap or not self._buffer else text)
        elif text:
            self._break(text)

    def _put(self, text: str) -> None:
        ended = self._columns.fill() if "table" in self._containers else None
        if self._marker is not None or ended is None:
            self._buffer.append(self._gap)
        if self._marker is not None and len(self._containers) == 1:
            self._seams.append(len(self._buffer))
        if ended is not None:
            # How many depends on the rows to come: a column without text in any of them is left out.
            self._bars[len(self._buffer)] = ended
            self._buffer.append("")
        self._buffer.append((self._marker or "") + text)
        self._gap, self._marker = "", None


def _is_for_screen_readers(node: LexborNode) -> bool:
    return node.tag == "span" and bool(_SCREEN_READER_ONLY.search(node.attributes.get("class") or ""))


def _heading_level(node: LexborNode) -> int:
    attributes = node.attributes
    level = (attributes.get("aria-level") or "")[:_MAX_LEVEL_DIGITS]
    if attributes.get("role") == "heading":
        return int(level) if level.isdecimal() else HEADINGS.get(node.tag or "", _ARIA_DEFAULT_LEVEL)
    return HEADINGS.get(node.tag or "", 0)
