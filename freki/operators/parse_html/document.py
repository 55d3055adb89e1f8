"""The readable text and outline of an HTML page."""

import re
from collections.abc import Iterable, Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from freki.operators.parse_html.readable import main_parts, opened_panels, walk
from freki.operators.parse_html.writer import HEADINGS, HtmlOutlineWriter
from freki.schemas.outline import ParsedDocument, as_attributes, one_line, tidy, visible

_META = {"author", "description", "keywords", "date"}

_TAG = re.compile(r"""<(/?)([a-z][a-z0-9-]*)(?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?>""", re.IGNORECASE)
# Skip links, and permalinks after headings.
_AIDS = re.compile(
    r"""<a\s[^<>]{0,300}class=["'][^"'<>]{0,200}\b(?:skip-?\w|headerlink|hash-link|anchor-?link)[^<>]{0,300}>[^<>]{0,100}</a>""",
    re.IGNORECASE,
)
# A document type with declarations of its own, as XHTML may have; a parser of HTML ends it at the first `>` in them.
# What may follow at each place begins with another character, so that the time stays linear.
_COMMENT, _QUOTED = r"<!--(?:[^-]|-(?!->))*-->", r""""[^"]*"|'[^']*'"""
_INSTRUCTION = r"<\?(?:[^?]|\?(?!>))*\?>"
_DECLARATIONS = re.compile(
    rf"""(\s*(?:(?:{_COMMENT}|{_INSTRUCTION})\s*)*<!DOCTYPE(?:{_QUOTED}|[^"'\[<>])*)"""
    rf"""\[(?:{_COMMENT}|{_INSTRUCTION}|{_QUOTED}|[^"'<\]]|<(?!!--|\?))*\]\s*>""",
    re.IGNORECASE,
)
_FORMATTING = {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
_STRUCK = {"s", "strike"}
_REMOVED = {**dict.fromkeys(_FORMATTING - _STRUCK, ""), "option": " "}
"""What stands in place of tags that are left out."""
_VOID = {
    *("br", "hr", "img", "input", "meta", "link", "area", "base", "embed", "source", "track", "wbr", "param", "col"),
}
_UNNESTED = {
    *(*HEADINGS, *_VOID, "html", "head", "body", "p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot"),
    *("caption", "colgroup", "optgroup", "rb", "rt", "rp"),
}
_XHTML = "http://www.w3.org/1999/xhtml"
_HEAD_CHARS = 4000
# Outside of XHTML browsers ignore the slash of `<div/>`: taken for the end, a later `</div>` would end what is around.
# That holds for scripts and unread elements too, but read so, they would hide the rest of the page.
_OPEN_DESPITE_SLASH = {
    *("address", "article", "aside", "blockquote", "center", "details", "div", "dl", "fieldset", "figcaption"),
    *("figure", "footer", "form", "header", "hgroup", "main", "menu", "ol", "pre", "section", "summary", "table", "ul"),
}
# As in Blink. The parser scans all open elements at each tag: without a limit its time is quadratic.
_MAX_DEPTH = 512
# A link that opens an element of the page, as a button does.
_OPENER = re.compile(r"""<a\s[^<>]*?\b(?:aria-controls|data-(?:bs-)?toggle=["']?collapse)""", re.IGNORECASE)
_LONG_TAG, _MAX_TAG_ATTRIBUTES = 4000, 500
"""Characters of a tag whose attributes are counted, and their maximum: the parser compares each one with all others."""
_MANY_ATTRIBUTES = re.compile(
    rf"""<[^\s/>]+(?:[\s/]+[^\s/=>]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?){{{_MAX_TAG_ATTRIBUTES}}}"""
)


def parse_html(source: str) -> ParsedDocument:
    r"""Parse the visible content of a page into headings, paragraphs, lists, tables and preformatted code.

    If the page has `<main>` or `role="main"`, only that is read, with the h1 above it where it has none. Headings are
    h1 to h6 and `role="heading"` with its `aria-level`. Navigation, search, dialogs, cookie banners, the footer and the
    asides of the page, scripts, styles, templates, hidden elements and text struck through are left out, but not what a
    tab opens, or, as in accordions, a button in a heading or one above text that is content. Blocks are separated by a
    blank line, items and rows by a line end, cells by ` | `. Empty and spanned cells are kept where text follows in the
    row, unless their column has no text at all. A list or table that contains a heading or a table is layout: its parts
    are separate blocks. Elements nested more than 512 deep are flattened. `<title>` gives the title; `lang` and the
    `<meta>` author, description, keywords and date give attributes. Tags such as `<title/>` and `<path/>` are elements
    without content; parts such as `<div/>` only in XHTML. Declarations in a document type are left out, and entities
    that they define stay as written.
    """
    tree = LexborHTMLParser(_flattened(_undeclared(tidy(source))))
    root = tree.body or tree.root
    layout = _layout(tree)
    panels = opened_panels(tree)
    writer = _written(main_parts(tree), layout, panels)
    if not writer.blocks and root:
        writer = _written([root], layout, panels)
    title = tree.css_first("title")
    return ParsedDocument(
        text="".join(writer.text),
        blocks=tuple(writer.blocks),
        title=one_line(visible(title.text(deep=True))) or None if title else None,
        attributes=as_attributes(_metadata(tree)),
    )


def _undeclared(source: str) -> str:
    """Remove the declarations within a document type."""
    found = _DECLARATIONS.match(source)
    return source if found is None else f"{found[1]}>{source[found.end() :]}"


def _flattened(source: str) -> str:
    """Remove skip links and permalinks, inline formatting, elements that are nested too deep, and slashes in tags.

    HTML reopens unclosed formatting in each later paragraph, so a small page with many unclosed tags could exhaust the
    memory. Options go too, which are not read: at each one the parser looks at all of its menu.
    """
    depth = 0
    open_despite_slash = _VOID if _is_xhtml(source) else _UNNESTED | _OPEN_DESPITE_SLASH

    def kept(tag: re.Match[str]) -> str:
        nonlocal depth
        whole, end, name = _bounded(tag[0]), tag[1], tag[2].lower()
        if name in _REMOVED:
            # A link may be the button of an accordion; which element it opens stays to be seen.
            return f"<span{whole[2:-1].rstrip('/')}></span>" if _OPENER.search(whole) else _REMOVED[name]
        if whole[-2] == "/" and not end and name not in open_despite_slash:
            return f"{whole[:-2]}></{name}>" if depth < _MAX_DEPTH else ""
        if name in _STRUCK:
            # Left out as `<del>`, which no parser opens again in each later paragraph.
            whole = "" if whole[-2] == "/" else f"<{end}del>"
        if not whole or name in _UNNESTED:
            return whole
        if end:
            depth = max(depth - 1, 0)
            return whole if depth < _MAX_DEPTH else ""
        depth += 1
        return whole if depth <= _MAX_DEPTH else ""

    return _TAG.sub(kept, _AIDS.sub("", source))


def _bounded(tag: str) -> str:
    """Cut a tag after its first attributes."""
    many = _MANY_ATTRIBUTES.match(tag) if len(tag) > _LONG_TAG else None
    return tag if many is None else f"{many[0]}>"


def _is_xhtml(source: str) -> bool:
    head = source[:_HEAD_CHARS]
    return _XHTML in head or head.lstrip().startswith("<?xml")


def _written(roots: Iterable[LexborNode], layout: set[int], panels: frozenset[str]) -> HtmlOutlineWriter:
    writer = HtmlOutlineWriter(layout)
    for root in roots:
        for node, entering in walk(root, panels):
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
