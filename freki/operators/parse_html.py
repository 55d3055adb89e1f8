"""The readable text and outline of an HTML page."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from freki.schemas.outline import Block, BlockKind, ParsedDocument, as_attributes, one_line, tidy

_UNREAD = {"script", "style", "nav", "template", "noscript", "head", "svg", "iframe", "object", "button", "select"}
_INLINE = {
    *("abbr", "acronym", "bdi", "bdo", "cite", "data", "del", "dfn", "img", "input", "ins", "kbd", "label", "mark"),
    *("math", "q", "ruby", "samp", "span", "sub", "sup", "time", "var", "wbr"),
}
_KINDS = {
    "ul": BlockKind.LIST,
    "ol": BlockKind.LIST,
    "dl": BlockKind.LIST,
    "menu": BlockKind.LIST,
    "table": BlockKind.TABLE,
    "pre": BlockKind.CODE,
}
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_ARIA_DEFAULT_LEVEL = 2
_ITEMS = {"li", "dt", "tr"}
_CELLS = {"td", "th"}
_STRENGTH = {"": 0, " ": 1, " | ": 2, "\n": 3}
_MAX_INDENT = 8
_MAX_LEVEL_DIGITS = 3
_META = {"author", "description", "keywords", "date"}

_TAG = re.compile(r"""<(/?)([a-z][a-z0-9-]*)(?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?>""", re.IGNORECASE)
_FORMATTING = {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
_UNNESTED = {
    *_HEADINGS,
    *(
        "html",
        "head",
        "body",
        "p",
        "li",
        "dt",
        "dd",
        "tr",
        "td",
        "th",
        "tbody",
        "thead",
        "tfoot",
        "caption",
        "colgroup",
    ),
    *(
        "col",
        "option",
        "optgroup",
        "rb",
        "rt",
        "rp",
        "br",
        "hr",
        "img",
        "input",
        "meta",
        "link",
        "area",
        "base",
        "embed",
    ),
    *("source", "track", "wbr", "param"),
}
# As in Blink. The parser looks through all open elements at each tag: without a bound its time is quadratic.
_MAX_DEPTH = 512


def parse_html(source: str) -> ParsedDocument:
    r"""Read what a reader sees into text, with headings, paragraphs, lists, tables and preformatted code.

    Headings are h1 to h6 and `role="heading"` with its `aria-level`. Navigation, scripts, styles, templates and what
    is hidden are left out. Blocks are parted by a blank line, items and rows by a line end, cells by ` | `. A list
    or table that holds a heading or a table is layout: its parts are blocks of their own. Elements nested more than
    512 deep are flattened. `<title>` gives the title; `lang` and the `<meta>` author, description, keywords and
    date give attributes.
    """
    tree = LexborHTMLParser(_flattened(tidy(source)))
    root = tree.body or tree.root
    writer = _Writer(_layout(tree))
    for node, entering in _walk(root) if root else ():
        if entering:
            writer.enter(node)
        else:
            writer.leave(node)
    writer.close_block()
    title = tree.css_first("title")
    return ParsedDocument(
        text="".join(writer.text),
        blocks=tuple(writer.blocks),
        title=one_line(title.text(deep=True)) or None if title else None,
        attributes=as_attributes(_metadata(tree)),
    )


def _flattened(source: str) -> str:
    """Remove tags of inline formatting and of elements that are nested too deep.

    Where formatting is left open, the standard has it opened again in each later paragraph: a small page of many
    open ones would fill the memory.
    """
    depth = 0

    def kept(tag: re.Match[str]) -> str:
        nonlocal depth
        name = tag.group(2).lower()
        if name in _FORMATTING:
            return ""
        if name in _UNNESTED:
            return tag.group()
        if tag.group(1):
            depth = max(depth - 1, 0)
            return tag.group() if depth < _MAX_DEPTH else ""
        depth += 1
        return tag.group() if depth <= _MAX_DEPTH else ""

    return _TAG.sub(kept, source)


def _walk(root: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
    """Yield each readable node twice, on entering and on leaving; without recursion, however deep."""
    node, end = root, root.mem_id
    while True:
        readable = _is_readable(node)
        if readable:
            yield node, True
        child = node.first_child if readable else None
        if child is not None:
            node = child
            continue
        if readable:
            yield node, False
        while node.mem_id != end and node.next is None and node.parent is not None:
            node = node.parent
            yield node, False
        if node.mem_id == end or node.next is None:
            return
        node = node.next


def _is_readable(node: LexborNode) -> bool:
    if node.is_text_node:
        return True
    if not node.is_element_node or node.tag in _UNREAD:
        return False
    attributes = node.attributes
    return "hidden" not in attributes and attributes.get("aria-hidden") != "true"


def _layout(tree: LexborHTMLParser) -> set[int]:
    """Return the elements that hold a heading or a table."""
    holders: set[int] = set()
    for inner in tree.css("h1, h2, h3, h4, h5, h6, table, [role=heading]"):
        node = inner.parent
        while node is not None and node.mem_id not in holders:
            holders.add(node.mem_id)
            node = node.parent
    return holders


def _metadata(tree: LexborHTMLParser) -> Iterator[tuple[str, str]]:
    root = tree.css_first("html")
    yield "lang", (root.attributes.get("lang") if root else None) or ""
    for meta in tree.css("meta[name][content]"):
        name = (meta.attributes["name"] or "").lower()
        if name in _META:
            yield name, meta.attributes["content"] or ""


class _Writer:
    """Builds text and blocks from the nodes of a page in order."""

    def __init__(self, layout: set[int]) -> None:
        self.text: list[str] = []
        self.blocks: list[Block] = []
        self._layout = layout
        self._length = 0
        self._containers: list[str] = []
        self._numbers: list[int] = []
        self._begin_block()

    def _begin_block(self) -> None:
        self._level = 0
        self._buffer: list[str] = []
        self._buffered = 0
        self._seams: list[int] = []
        # What parts the next words from those before, and what stands before them where they begin an item or row.
        self._gap = ""
        self._marker: str | None = None

    def enter(self, node: LexborNode) -> None:
        """Take up a text or the start of an element."""
        tag = node.tag or ""
        if node.is_text_node:
            self._write(node.text_content or "")
        elif tag == "br":
            self._break("\n")
        elif self._is_container(node):
            self._part()
            self._containers.append(tag)
            self._numbers.append(0)
        elif tag in _ITEMS and self._containers:
            self._item(tag)
        elif tag in _CELLS and self._containers:
            self._break(" | ")
        elif tag not in _INLINE:
            self._part()
            self._level = 0 if self._containers else _heading_level(node)

    def leave(self, node: LexborNode) -> None:
        """Take up the end of an element."""
        tag = node.tag or ""
        if self._is_container(node):
            if len(self._containers) == 1:
                self.close_block()
            self._containers.pop()
            self._numbers.pop()
        if not node.is_text_node and tag not in _INLINE and tag != "br" and tag not in _CELLS:
            self._part()

    def close_block(self) -> None:
        """End the block that is being written, if it holds anything."""
        written = "".join(self._buffer).rstrip()
        text = written.lstrip("\n")
        if text:
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
        kind = _KINDS[self._containers[0]] if self._containers else BlockKind.PROSE
        seams = tuple(offset + seam for seam in self._seams if start < offset + seam < end)
        return Block(kind=kind, start=start, end=end, seams=seams)

    def _is_container(self, node: LexborNode) -> bool:
        return node.tag in _KINDS and node.mem_id not in self._layout

    def _item(self, tag: str) -> None:
        self._break("\n")
        self._marker = ""
        if tag == "li" and "table" not in self._containers:
            self._numbers[-1] += 1
            marker = f"{self._numbers[-1]}. " if self._containers[-1] == "ol" else "- "
            self._marker = "  " * min(len(self._containers) - 1, _MAX_INDENT) + marker

    def _part(self) -> None:
        """End a block, a line of a list, or a phrase of a table."""
        if not self._containers:
            self.close_block()
        else:
            self._break(" " if "table" in self._containers else "\n")

    def _break(self, gap: str) -> None:
        if self._buffered and self._marker is None and _STRENGTH[gap] > _STRENGTH[self._gap]:
            self._gap = gap

    def _write(self, text: str) -> None:
        if "pre" in self._containers:
            self._put(text)
            return
        words = " ".join(text.split())
        if text[:1].isspace():
            self._break(" ")
        if words:
            self._put(words)
        if text[-1:].isspace():
            self._break(" ")

    def _put(self, text: str) -> None:
        if self._marker is not None and len(self._containers) == 1:
            self._seams.append(self._buffered + len(self._gap))
        written = self._gap + (self._marker or "") + text
        self._buffer.append(written)
        self._buffered += len(written)
        self._gap, self._marker = "", None


def _heading_level(node: LexborNode) -> int:
    attributes = node.attributes
    level = (attributes.get("aria-level") or "")[:_MAX_LEVEL_DIGITS]
    if attributes.get("role") == "heading":
        return int(level) if level.isdecimal() else _HEADINGS.get(node.tag or "", _ARIA_DEFAULT_LEVEL)
    return _HEADINGS.get(node.tag or "", 0)
