"""The text of OpenDocument files: paragraphs, lists, tables, notes and text boxes."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from xml.etree.ElementTree import Element

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.bold import bold_level
from freki.operators.parse_office.numbering import FORMS, whole
from freki.operators.parse_office.odf_controls import fill_controls
from freki.operators.parse_office.package import MAX_ANCESTORS, Package, opened
from freki.operators.parse_office.raised import Piece, part_numbers
from freki.operators.parse_office.writer import OfficeOutlineWriter
from freki.schemas.outline import Part

PARAGRAPHS = {"{text}p", "{text}h"}
_HEADER_ROWS = "{table}table-header-rows"
ROW_GROUPS = {_HEADER_ROWS, "{table}table-rows", "{table}table-row-group"}
CELLS = {"{table}table-cell", "{table}covered-table-cell"}
_UNREAD = {
    *("{text}tracked-changes", "{office}annotation", "{office}forms", "{text}ruby-text", "{svg}title", "{svg}desc"),
    "{presentation}notes",
}
_SIGNS = {"{text}tab": "\t", "{text}line-break": "\n"}
_SHAPES = ("text-box", "custom-shape", "rect", "circle", "ellipse", "path", "polygon", "polyline", "line", "connector")
_APART = {"{text}note", *(f"{{draw}}{shape}" for shape in _SHAPES)}
"""Elements within a paragraph that are not part of its text."""
_SPACE = re.compile(r"[ \t\r\n]+")
_BOLD = {"bold", "600", "700", "800", "900"}
_LIGHT = {"normal", "100", "200", "300", "400", "500"}
_SPAN, _STROKE = "{text}span", "{style}text-line-through-style"
_STROKES = {"solid", "dotted", "dash", "long-dash", "dot-dash", "dot-dot-dash", "wave"}
_POSITION = "{style}text-position"
_AT_BASELINE = {"", "0%"}
_MAX_SPACES = 100
_MAX_LEVEL = 10
_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_Counts = Counter[int]


class _Level(NamedTuple):
    """Number format of a level."""

    form: str
    before: str
    after: str
    start: int
    shown: int
    """Number of displayed levels, this one the last."""


class _Item(NamedTuple):
    """A paragraph of a list."""

    paragraph: Element
    level: int
    """1 is outermost."""
    label: str | None
    """Its number, empty for a bullet; None for the further paragraphs of an item."""


class Content(NamedTuple):
    """A document with its styles."""

    package: Package
    body: Element
    """Text, slides or sheets."""
    styles: Mapping[str, Element]
    """Automatic styles of the document, by name."""
    lists: Mapping[str, Mapping[int, _Level]]
    """Numbered levels of each list style; that of headings has an empty name."""
    bold: frozenset[tuple[str, str]]
    """Family and name of styles whose text is bold."""
    light: frozenset[tuple[str, str]]
    """Family and name of styles that say that their text is not."""


@contextmanager
def content_of(content: bytes, kind: str, *, max_unpacked_bytes: int) -> Iterator[Content]:
    """Open a document of a kind: `text`, `presentation` or `spreadsheet`."""
    with opened(content, max_unpacked_bytes=max_unpacked_bytes) as package:
        manifest = package.tree("META-INF/manifest.xml")
        if manifest is not None and next(manifest.iter("{manifest}encryption-data"), None) is not None:
            raise UnreadableContent("encrypted: save it without a password")
        document = package.tree("content.xml")
        body = None if document is None else document.find(f"{{office}}body/{{office}}{kind}")
        if document is None or body is None:
            raise UnreadableContent(f"no {kind} document in the package: save it again")
        common = package.tree("styles.xml")
        automatic = list(document.iterfind("{office}automatic-styles/{style}style"))
        styles = [*(() if common is None else common.iterfind("{office}styles/{style}style")), *automatic]
        _empty_hidden(body, _styled(styles, "{text}display", {"none"}))
        _empty_struck(body, styles)
        _part_numbers(body, styles)
        fill_controls(body)
        bold, light = (_styled(styles, "{fo}font-weight", weights) for weights in (_BOLD, _LIGHT))
        own = {style.get("{style}name", ""): style for style in automatic}
        lists = [*_lists(common), *_lists(document)]
        yield Content(package, body, own, dict(lists), bold, light)


def _styled(styles: Sequence[Element], name: str, values: Container[str]) -> frozenset[tuple[str, str]]:
    """Return family and name of each style whose text has one of the values, by itself or by an ancestor."""
    by_key = {(style.get("{style}family", ""), style.get("{style}name", "")): style for style in styles}
    return frozenset(key for key in by_key if _look(key, by_key, name) in values)


def _part_numbers(body: Element, styles: Sequence[Element]) -> None:
    """Part digits of notes and powers from the number before or behind them, where a text has any."""
    positions = (style.find("{style}text-properties") for style in styles)
    values = {look.get(_POSITION, "") for look in positions if look is not None}
    shifted = _styled(styles, _POSITION, {each for each in values if each.partition(" ")[0] not in _AT_BASELINE})
    if shifted:
        for paragraph in (element for tag in PARAGRAPHS for element in body.iter(tag)):
            part_numbers(_pieces(paragraph, shifted, is_shifted=False))


def _pieces(element: Element, styles: Container[tuple[str, str]], *, is_shifted: bool) -> Iterator[Piece]:
    yield Piece(is_shifted, element)
    for child in element:
        if child.tag not in _UNREAD and child.tag not in _APART:
            own = ("text", child.get("{text}style-name", "")) in styles
            yield from _pieces(child, styles, is_shifted=is_shifted or own)
        yield Piece(is_shifted, child, "tail")


def _look(key: tuple[str, str], by_key: Mapping[tuple[str, str], Element], name: str) -> str:
    """Return a property of text, as the style says or the nearest ancestor that says anything."""
    for _ in range(MAX_ANCESTORS):
        style = by_key.get(key)
        if style is None:
            break
        look = style.find("{style}text-properties")
        if look is not None and name in look.attrib:
            return look.get(name, "")
        key = key[0], style.get("{style}parent-style-name", "")
    return ""


def _empty_hidden(body: Element, styles: Container[tuple[str, str]]) -> None:
    """Empty the elements that a reader does not see."""
    for element in list(body.iter()):
        if _is_hidden(element, styles):
            after = element.tail
            element.clear()
            element.tail = after


def _empty_struck(body: Element, styles: Sequence[Element]) -> None:
    """Take away text that is struck through and no longer holds; its paragraph still counts in its list."""
    struck, plain = (_styled(styles, _STROKE, values) for values in (_STROKES, {"none"}))
    for paragraph in (element for tag in PARAGRAPHS for element in body.iter(tag)) if struck else ():
        is_struck = ("paragraph", paragraph.get("{text}style-name", "")) in struck
        if is_struck:
            paragraph.text = ""
            for child in paragraph:
                child.tail = ""
            paragraph.append(Element(_SPAN))
        for span in paragraph.iter(_SPAN):
            style = ("text", span.get("{text}style-name", ""))
            if style in struck or (is_struck and style not in plain):
                after = span.tail
                span.clear()
                span.tail = after


def _is_hidden(element: Element, styles: Container[tuple[str, str]]) -> bool:
    name = element.get("{text}style-name", "")
    if element.tag in PARAGRAPHS:
        switches = element.iter("{text}hidden-paragraph")
        return ("paragraph", name) in styles or any(map(_is_switched_off, switches))
    if element.tag == "{text}span":
        return ("text", name) in styles
    display = "{text}display" if element.tag == "{text}section" else "{draw}display"
    return element.get(display) == "none" or _is_switched_off(element)


def _is_switched_off(element: Element) -> bool:
    return element.get("{text}is-hidden") == "true"


def _lists(element: Element | None) -> Iterator[tuple[str, Mapping[int, _Level]]]:
    for style in () if element is None else element.iter():
        if style.tag in {"{text}list-style", "{text}outline-style"}:
            name = style.get("{style}name", "") if style.tag == "{text}list-style" else ""
            yield name, {whole(level.get("{text}level", "")): _level(level) for level in style if _has_number(level)}


def _has_number(level: Element) -> bool:
    return bool(level.get("{style}num-format")) and level.tag != "{text}list-level-style-bullet"


def _level(level: Element) -> _Level:
    return _Level(
        form=level.get("{style}num-format", ""),
        before=level.get("{style}num-prefix", ""),
        after=level.get("{style}num-suffix", ""),
        start=whole(level.get("{text}start-value", ""), default=1),
        shown=whole(level.get("{text}display-levels", ""), default=1),
    )


class OdfReader:
    """Processes paragraphs, lists and tables in order."""

    def __init__(self, content: Content, *, bold: bool = False) -> None:
        """Create a reader; bold: whether lines in bold are headings."""
        self.writer = OfficeOutlineWriter()
        self.title = ""
        self._body = content.body
        self._bold, self._light = content.bold if bold else frozenset(), content.light
        self._styles = content.styles
        self._lists = content.lists
        self._headings = _Counts()
        self._counts: dict[str, _Counts] = {}
        """Item counts of each list style, by level: a list may continue the numbers of the last one of its style."""

    def read_all(self) -> tuple[Sequence[Part], str]:
        """Process the document, and return its parts and the title that its style marks."""
        self.read(self._body)
        return self.writer.close(), self.title

    def read(self, element: Iterable[Element]) -> None:
        """Process the children of an element, or a sequence of siblings."""
        for child in element:
            if child.tag in PARAGRAPHS:
                self._paragraph(child)
            elif child.tag == "{text}list" and not _holds(child, "{text}h"):
                self._list(child)
            elif child.tag == "{table}table" and not _holds(child, "{text}h", "{table}table"):
                headers = sum(len(list(_rows(each))) for each in child.findall(_HEADER_ROWS))
                self.writer.table(
                    [[" ".join(self._cell(cell)) for cell in row] for row in _rows(child)], headers=headers
                )
            elif child.tag not in _UNREAD:
                self.read(child)

    def _paragraph(self, paragraph: Element) -> None:
        text = text_of(paragraph)
        level = self._level(paragraph)
        # A heading that is struck through has its number all the same.
        is_heading = level and (text.strip() or paragraph.find(_SPAN) is not None)
        label = self._heading_label(paragraph, level) if is_heading else ""
        if level and text.strip():
            self.writer.heading(f"{label} {text}" if label else text, level)
            self.title = self.title or (text if paragraph.tag == "{text}p" else "")
        elif self._bold and _is_bold(paragraph, self._bold, self._light) and (level := bold_level(text.strip())):
            self.writer.heading(text, level)
        else:
            self.writer.prose(text)
        self._apart(paragraph)

    def _level(self, paragraph: Element) -> int:
        if paragraph.tag == "{text}h":
            return max(whole(paragraph.get("{text}outline-level", ""), default=1), 1)
        name = paragraph.get("{text}style-name", "")
        style = self._styles.get(name)
        return int("Title" in (name, None if style is None else style.get("{style}parent-style-name")))

    def _heading_label(self, heading: Element, level: int) -> str:
        if heading.tag != "{text}h" or heading.get("{text}is-list-header") == "true":
            return ""
        levels = self._lists.get("", {})
        if heading.get("{text}restart-numbering") == "true":
            own = levels[level].start if level in levels else 1
            self._headings[level] = whole(heading.get("{text}start-value", ""), default=own) - 1
        return _label(levels, self._headings, level)

    def _list(self, listed: Element) -> None:
        for item in self._items(listed):
            marker = "  " if item.label is None else f"{item.label or '-'} "
            self.writer.item(text_of(item.paragraph), depth=item.level - 1, marker=marker)
            self._apart(item.paragraph)

    def _cell(self, cell: Iterable[Element]) -> Iterator[str]:
        """Yield the paragraphs in a cell with their numbers, each followed by its notes and text boxes."""
        for child in cell:
            if child.tag == "{text}list":
                for item in self._items(child):
                    yield from self._cell_paragraph(item.paragraph, item.label or "")
            elif child.tag in PARAGRAPHS:
                yield from self._cell_paragraph(child, "")
            elif child.tag not in _UNREAD:
                yield from self._cell(child)

    def _cell_paragraph(self, paragraph: Element, label: str) -> Iterator[str]:
        yield f"{label} {text_of(paragraph)}" if label else text_of(paragraph)
        for element in _found(paragraph, _APART):
            yield from self._cell(element)

    def _items(self, listed: Element, style: str = "", level: int = 1) -> Iterator[_Item]:
        """Count the items of a list, and yield their paragraphs."""
        own = listed.get("{text}style-name", "")
        goes_on = listed.get("{text}continue-numbering") == "true" or "{text}continue-list" in listed.attrib
        style = own or style
        if level == 1 and not goes_on:
            self._counts[style] = _Counts()
        counts = self._counts.setdefault(style, _Counts())
        for item in listed:
            start = whole(item.get("{text}start-value", ""), default=-1)
            if level <= _MAX_LEVEL and start >= 0:
                counts[level] = start - 1
            is_header = item.tag == "{text}list-header"
            label: str | None = "" if is_header else _label(self._lists.get(style, {}), counts, level)
            for child in item:
                if child.tag == "{text}list":
                    yield from self._items(child, style, level + 1)
                    continue
                # Some programs write tables and sections into items, which the standard has no place for.
                for paragraph in [child] if child.tag in PARAGRAPHS else _found(child, PARAGRAPHS):
                    yield _Item(paragraph, level, label)
                    label = None

    def _apart(self, paragraph: Element) -> None:
        for element in _found(paragraph, _APART):
            if element.tag == "{text}note":
                self.writer.note(" ".join(joined(body) for body in element.iterfind("{text}note-body")))
            else:
                self.read(element)


def _label(levels: Mapping[int, _Level], counts: _Counts, level: int) -> str:
    """Count one more paragraph of a level, and return its label; empty without displayed numbers."""
    look = levels.get(level)
    counts[level] = counts.get(level, (look.start if look else 1) - 1) + 1
    for deeper in [other for other in counts if other > level]:
        del counts[deeper]
    if look is None:
        return ""
    shown = [
        FORMS.get(_FORMS.get(levels[upper].form, ""), str)(counts.get(upper, levels[upper].start))
        for upper in range(max(level - look.shown, 0) + 1, level + 1)
        if upper in levels
    ]
    return f"{look.before}{'.'.join(shown)}{look.after}".strip()


def _is_bold(paragraph: Element, bold: Container[tuple[str, str]], light: Container[tuple[str, str]]) -> bool:
    """Return whether all text of a paragraph is bold, by its style or that of spans, which goes before."""
    whole = ("paragraph", paragraph.get("{text}style-name", "")) in bold
    plain = [] if whole else [paragraph.text or "", *(child.tail or "" for child in paragraph)]
    for child in paragraph:
        style = "text", child.get("{text}style-name", "")
        is_shown = child.tag not in _UNREAD and child.tag not in _APART
        if is_shown and (style in light or not (whole or style in bold)):
            plain.append(text_of(child))
    return not "".join(plain).strip()


def _holds(element: Element, *tags: str) -> bool:
    return any(inner is not element for tag in tags for inner in element.iter(tag))


def _rows(table: Element) -> Iterator[list[Element]]:
    for child in table:
        if child.tag in ROW_GROUPS:
            yield from _rows(child)
        elif child.tag == "{table}table-row":
            yield [cell for cell in child if cell.tag in CELLS]


def _found(element: Element, tags: set[str]) -> Iterator[Element]:
    """Yield the outermost elements with one of the tags."""
    for child in element:
        if child.tag in tags:
            yield child
        elif child.tag not in _UNREAD:
            yield from _found(child, tags)


def joined(element: Element) -> str:
    """Return the paragraphs in an element, each followed by its notes and text boxes."""
    texts = []
    for paragraph in _found(element, PARAGRAPHS):
        texts += [text_of(paragraph), *map(joined, _found(paragraph, _APART))]
    return " ".join(texts)


def shape_texts(element: Element) -> Iterator[str]:
    """Yield the text of each shape and text box in an element."""
    yield from map(joined, _found(element, _APART))


def text_of(element: Element) -> str:
    """Return the visible text of a paragraph, with white space collapsed as in the standard."""
    texts = [_SPACE.sub(" ", element.text or "")]
    for child in element:
        if child.tag == "{text}s":
            count = child.get("{text}c", "1")
            texts.append(" " * (min(int(count[:4]), _MAX_SPACES) if count.isdecimal() else 1))
        elif child.tag in _SIGNS:
            texts.append(_SIGNS[child.tag])
        elif child.tag not in _UNREAD and child.tag not in _APART:
            texts.append(text_of(child))
        texts.append(_SPACE.sub(" ", child.tail or ""))
    return "".join(texts)
