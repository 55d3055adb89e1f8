"""The readable text and outline of an HTML page."""

import re
from collections.abc import Iterable, Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from freki.operators.parse_html.readable import main_parts, walk
from freki.operators.parse_html.writer import HEADINGS, HtmlOutlineWriter
from freki.schemas.outline import ParsedDocument, as_attributes, one_line, tidy

_META = {"author", "description", "keywords", "date"}

_TAG = re.compile(r"""<(/?)([a-z][a-z0-9-]*)(?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?>""", re.IGNORECASE)
# Skip links, and permalinks after headings.
_AIDS = re.compile(
    r"""<a\s[^<>]{0,300}class=["'][^"'<>]{0,200}\b(?:skip-?\w|headerlink|hash-link|anchor-?link)[^<>]{0,300}>[^<>]{0,100}</a>""",
    re.IGNORECASE,
)
_FORMATTING = {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
_UNNESTED = {
    *(*HEADINGS, "html", "head", "body", "p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "caption"),
    *("colgroup", "col", "option", "optgroup", "rb", "rt", "rp", "br", "hr", "img", "input", "meta", "link", "area"),
    *("base", "embed", "source", "track", "wbr", "param"),
}
# As in Blink. The parser scans all open elements at each tag: without a limit its time is quadratic.
_MAX_DEPTH = 512


def parse_html(source: str) -> ParsedDocument:
    r"""Parse the visible content of a page into headings, paragraphs, lists, tables and preformatted code.

    If the page has `<main>` or `role="main"`, only that is read, with the h1 above it where it has none. Headings are
    h1 to h6 and `role="heading"` with its `aria-level`. Navigation, search, dialogs, cookie banners, the footer and the
    asides of the page, scripts, styles, templates and hidden elements are left out. Blocks are separated by a blank
    line, items and rows by a line end, cells by ` | `. A list or table that contains a heading or a table is layout:
    its parts are separate blocks. Elements nested more than 512 deep are flattened. `<title>` gives the title; `lang`
    and the `<meta>` author, description, keywords and date give attributes.
    """
    tree = LexborHTMLParser(_flattened(tidy(source)))
    root = tree.body or tree.root
    layout = _layout(tree)
    writer = _written(main_parts(tree), layout)
    if not writer.blocks and root:
        writer = _written([root], layout)
    title = tree.css_first("title")
    return ParsedDocument(
        text="".join(writer.text),
        blocks=tuple(writer.blocks),
        title=one_line(title.text(deep=True)) or None if title else None,
        attributes=as_attributes(_metadata(tree)),
    )


def _flattened(source: str) -> str:
    """Remove skip links and permalinks, inline formatting, and elements that are nested too deep.

    HTML reopens unclosed formatting in each later paragraph, so a small page with many unclosed tags could exhaust the
    memory.
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

    return _TAG.sub(kept, _AIDS.sub("", source))


def _written(roots: Iterable[LexborNode], layout: set[int]) -> HtmlOutlineWriter:
    writer = HtmlOutlineWriter(layout)
    for root in roots:
        for node, entering in walk(root):
            if entering:
                writer.enter(node)
            else:
                writer.leave(node)
        writer.close_block()
    return writer


def _layout(tree: LexborHTMLParser) -> set[int]:
    """Return the lists and tables that contain a heading or a table."""
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
