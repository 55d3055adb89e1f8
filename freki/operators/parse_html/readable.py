"""The visible main content of a page."""

import re
from collections.abc import Collection, Iterator, Mapping
from unicodedata import normalize

from selectolax.lexbor import LexborHTMLParser, LexborNode

from freki.operators.parse_html.writer import HEADINGS

_UNREAD = {
    *("script", "style", "nav", "template", "noscript", "head", "svg", "iframe", "object", "select"),
    *("datalist", "search", "dialog", "rt", "rtc", "rp", "del"),
    *("annotation", "annotation-xml"),
}
_UNREAD_ROLES = {
    *("navigation", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar", "tablist"),
    *("contentinfo", "doc-toc", "doc-pagelist"),
}
_PANEL = "tabpanel"
"""Role of content that shows once its tab is chosen: all but one of them are hidden."""
_AROUND = {"footer", "aside"}
"""Elements outside of the content, unless they are within a section of it."""
_CONTENT = {"main", "article", "section", "blockquote", "figure", "details", "td"}
_CONTENT_ROLES = {"main", "article"}
_MAIN = "main, [role=main]"
_NO_OVERLAYS = {
    *("html", "body", "main", "article", *HEADINGS),
    *("dt", "dd", "tr", "td", "th", "pre", "figure"),
}
"""Elements of the whole page and of its content, which may have the names of overlays."""
_INVISIBLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
# Text that is struck through no longer holds, and without the stroke a reader would take it for valid.
_STRUCK = re.compile(r"text-decoration(?:-line)?\s*:[^;]*\bline-through\b", re.IGNORECASE)
# Ids and classes of overlays and banners, by consent managers and hand-made pages.
_OVERLAY = re.compile(
    r"(?:cookie|consent|gdpr|dsgvo)[\w-]{0,20}(?:banner|bar\b|notice|popup|modal|overlay|layer|hint|message|dialog|wall)"
    r"|(?:banner|notice|popup|modal|overlay|layer|hint|dialog)[\w-]{0,20}(?:cookie|consent|gdpr|dsgvo)"
    r"|onetrust|usercentrics|cookiebot|borlabscookie|cmplz-|didomi-|truste-|\bcc-window\b|\bcky-|\bklaro\b"
    r"|\bbreadcrumbs?\b",
    re.IGNORECASE,
)
# Classes of elements around an overlay.
_STATE = re.compile(r"(?:(?<!\S)|--)(?:has|no|with|without|show|hide)-\S+", re.IGNORECASE)
_OPENERS = "[aria-expanded][aria-controls], [data-bs-toggle=collapse], [data-toggle=collapse]"
_FORM = "input, textarea, select"
_SENTENCE_END = re.compile(r"\w\w[.?!](?:\s|\Z)")
_MENU_WORDS = 5
"""Most words of an entry of a menu."""
_HEADING = "h1, h2, h3, h4, h5, h6, [role=heading]"


def main_parts(tree: LexborHTMLParser) -> list[LexborNode]:
    """Return the outermost main elements of a page, preceded by the title above them where they have none."""
    parts = [node for node in tree.css(_MAIN) if not _is_within(node, {"main"}, {"main"})]
    titled = not parts or any(part.css_first("h1") for part in parts)
    return [*([] if titled else tree.css("h1")), *parts]


def _is_within(node: LexborNode, tags: Collection[str], roles: Collection[str]) -> bool:
    return _nearest(node.parent, tags, roles) is not None


def _nearest(node: LexborNode | None, tags: Collection[str], roles: Collection[str]) -> LexborNode | None:
    """Return the node, or the nearest one around it, that has one of the tags or roles."""
    while node is not None and node.tag not in tags and node.attributes.get("role") not in roles:
        node = node.parent
    return node


def opened_panels(tree: LexborHTMLParser) -> frozenset[str]:
    """Return the ids of elements that titles of sections open, as in accordions: they are hidden until then.

    A title stands in a heading, or what it opens reads as content: menus, forms and lists of links do not.
    """
    buttons = tree.css(_OPENERS)
    named = {node.id or "": node for node in tree.css("[id]")} if buttons else {}
    openers = {name: button for button in reversed(buttons) for name in _opened(button.attributes)}
    titled = (name for button in buttons if _is_title(button, button.attributes) for name in _opened(button.attributes))
    # Each panel is looked at once, however many buttons name it.
    return frozenset(titled).union(name for name, button in openers.items() if _is_section(button, named.get(name)))


def _opened(attributes: Mapping[str, str | None]) -> list[str]:
    """Return the ids that a button names, for those who cannot see the page, or for Bootstrap."""
    target = (attributes.get("data-bs-target") or attributes.get("data-target") or "").removeprefix("#")
    return (attributes.get("aria-controls") or target).split()


def _is_section(button: LexborNode, panel: LexborNode | None) -> bool:
    """Return whether what a button outside of a heading opens is a section of the content."""
    attributes = button.attributes
    if panel is None or (attributes.get("aria-haspopup") or "false") != "false" or panel.css_first(_FORM) is not None:
        return False
    if _is_within(button, {"header", "form"}, {"banner"}) and not _is_within(button, _CONTENT, _CONTENT_ROLES):
        return False
    return panel.css_first("table, dl") is not None or any(
        map(_is_prose, panel.text(deep=True, separator="\n").split("\n"))
    )


def _is_prose(text: str) -> bool:
    """Return whether a text ends a sentence, or has more words than entries of menus."""
    return len(text.split(maxsplit=_MENU_WORDS)) > _MENU_WORDS or _SENTENCE_END.search(text) is not None


def walk(root: LexborNode, panels: frozenset[str]) -> Iterator[tuple[LexborNode, bool]]:
    """Yield each readable node twice, on entering and on leaving; without recursion, however deep.

    panels: ids of elements that are read although they are hidden.
    """
    node, end = root, root.mem_id
    while True:
        readable = _is_readable(node, panels)
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


def _is_readable(node: LexborNode, panels: frozenset[str]) -> bool:
    if node.is_text_node:
        return True
    if not node.is_element_node or node.tag in _UNREAD:
        return False
    attributes = node.attributes
    if node.tag == "button" and not _is_title(node, attributes) and panels.isdisjoint(_opened(attributes)):
        return False
    if attributes.get("role") in _UNREAD_ROLES or _is_overlay(node, attributes):
        return False
    if _is_hidden(attributes) and attributes.get("role") != _PANEL and (attributes.get("id") or "") not in panels:
        return False
    around = node.tag in _AROUND or attributes.get("role") == "complementary"
    return not around or _is_within(node, _CONTENT, _CONTENT_ROLES)


def _is_title(button: LexborNode, attributes: Mapping[str, str | None]) -> bool:
    """Return whether a button is the title of what it opens: it stands in a heading, and says so or is all of it."""
    heading = _nearest(button, HEADINGS, {"heading"})
    if heading is None:
        return False
    if "aria-expanded" in attributes:
        return True
    first = heading.css_first("button")
    is_first = first is not None and first.mem_id == button.mem_id
    return is_first and _letters(heading.text(deep=True)) == _letters(button.text(deep=True))


def _is_hidden(attributes: Mapping[str, str | None]) -> bool:
    # What is hidden until it is found is content that browsers search.
    hidden = "hidden" in attributes and (attributes.get("hidden") or "").lower() != "until-found"
    style = attributes.get("style") or ""
    return hidden or attributes.get("aria-hidden") == "true" or bool(_INVISIBLE.search(style) or _STRUCK.search(style))


def _is_overlay(node: LexborNode, attributes: Mapping[str, str | None]) -> bool:
    name = attributes.get("id") or ""
    named = f"{name} {attributes.get('class') or ''}"
    return (
        node.tag not in _NO_OVERLAYS
        and bool(_OVERLAY.search(named))
        and bool(_OVERLAY.search(_STATE.sub("", named)))
        and attributes.get("role") != "heading"
        and node.css_first(f"h1, {_MAIN}") is None
        and not _is_named_by_its_heading(node, name)
    )


def _is_named_by_its_heading(node: LexborNode, name: str) -> bool:
    """Return whether the id was made from the first heading of a section, as generators of pages do."""
    heading = node.css_first(_HEADING) if name else None
    return heading is not None and _letters(name) in _letters(heading.text(deep=True))


def _letters(text: str) -> str:
    return "".join(letter for letter in normalize("NFKD", text.casefold()) if letter.isalpha())
