"""The readable text and outline of a DOCX."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple
from xml.etree.ElementTree import Element

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.bold import bold_level, unless_most_are_headings
from freki.operators.parse_office.formulas import FORMULAS, formula
from freki.operators.parse_office.numbering import Numbering, is_on, value, whole
from freki.operators.parse_office.package import MAX_ANCESTORS, MAX_UNPACKED_BYTES, Package, opened
from freki.operators.parse_office.raised import Piece, part_numbers
from freki.operators.parse_office.symbols import symbol
from freki.operators.parse_office.writer import OfficeOutlineWriter
from freki.schemas.outline import ParsedDocument, Part, assemble

_MAX_LEVEL = 9
_MAX_SPAN = 64
_HEADING_STYLE = "heading "
_LIST_STYLES = ("list", "toc ")
_WRAPPERS = {
    *("{w}sdt", "{w}sdtContent", "{w}ins", "{w}moveTo", "{w}customXml", "{w}smartTag"),
    *("{mc}AlternateContent", "{mc}Choice"),
}
_TEXTS = {"{w}t", "{m}t", "{a}t"}
_SIGNS = {"{w}br": "\n", "{a}br": "\n", "{w}cr": "\n", "{w}tab": "\t", "{w}ptab": "\t", "{w}noBreakHyphen": "-"}
_UNREAD = {"{w}del", "{w}moveFrom", "{w}pPr", "{w}rPr", "{w}rt", "{mc}Fallback"}
_REFERENCES = {"{w}footnoteReference": "footnote", "{w}endnoteReference": "endnote"}
_DELETED_MARKS = ("{w}pPr/{w}rPr/{w}del", "{w}pPr/{w}rPr/{w}moveFrom")
_BOX = "{w}txbxContent"
_DIAGRAM = "{dgm}relIds"
"""Names the parts of a diagram (SmartArt), such as an organisation chart."""
_EMBEDDED = "{w}altChunk"
"""A whole file, mostly HTML, that programs leave for Word to convert: without it, much or all of a text is missing."""
_LEFT_OUT = ("{w}vanish", "{w}strike", "{w}dstrike")
"""Hidden text, and text struck through, which no longer holds: without the stroke a reader would take it for valid."""
_SHIFT = "{w}rPr/{w}vertAlign"
_SHIFTED = {"superscript", "subscript"}
_FIELD = "{w}fldChar"
_NO_LIST = {"", "0"}


class _Styles(NamedTuple):
    levels: Mapping[str, int]
    """Heading level of each style that has one."""
    titles: frozenset[str]
    listed: frozenset[str]
    numbers: Mapping[str, tuple[str, int]]
    """List and depth of each style."""
    left_out: Mapping[str, frozenset[str]]
    """Styles that switch on each of `_LEFT_OUT`."""
    shifted: frozenset[str]
    """Styles of raised and lowered text."""


def parse_docx(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the visible content of a DOCX: headings, paragraphs, lists, tables, text boxes, footnotes below.

    A heading is a paragraph with an outline level, of its own or by its style; the style "Title" is level 1. Where none
    has any, headings are short lines in bold that do not end like a sentence: level 1, with a number below. Headings
    and items have the numbers that Word displays. Digits of notes and powers are parted from numbers beside them. A
    table that contains a heading or a table is layout: its parts are separate blocks. The texts of a diagram (SmartArt)
    are a list. Deleted and hidden text, text struck through, comments, headers and footers are left out. There are no
    pages, which depend on the renderer. Raises UnreadableContent for files that are damaged, encrypted, larger than
    `max_unpacked_bytes` unpacked, or nested too deep, and for those that embed files as text.
    """
    with opened(content, max_unpacked_bytes=max_unpacked_bytes) as package:
        main = package.main()
        document = package.tree(main)
        body = None if document is None else document.find("{w}body")
        if body is None:
            raise UnreadableContent("no text document in the package: save it as DOCX")
        if next(body.iter(_EMBEDDED), None) is not None:
            raise UnreadableContent("embeds text of another format (altChunk): open it in Word and save it again")
        styles, notes, numbers = _styles(package.related(main, "styles")), _notes(package, main), "numbering"
        diagrams = _diagrams(package, main)
        for element in [body, *notes.values()]:
            for switch, names in styles.left_out.items():
                _leave_out(element, switch, names)
            _accept_deletions(element)
            _hide_instructions(element)
            _part_numbers(element, styles.shifted)
        parts, stated = _Reader(styles, Numbering(package.related(main, numbers)), notes, diagrams).read_all(body)
        if not any(part.heading_level for part in parts):
            bold = _Reader(styles, Numbering(package.related(main, numbers)), notes, diagrams, bold=True)
            parts, stated = unless_most_are_headings(bold.read_all(body)[0], parts)
        title, attributes = package.properties()
    return assemble(parts, title=title or stated, attributes=attributes)


class _Reader:
    """Processes paragraphs and tables in order."""

    def __init__(
        self,
        styles: _Styles,
        numbering: Numbering,
        notes: Mapping[tuple[str, str], Element],
        diagrams: Mapping[str, Element],
        *,
        bold: bool = False,
    ) -> None:
        """Create a reader; bold: whether lines in bold are headings."""
        self.writer = OfficeOutlineWriter()
        self.title = ""
        self._styles = styles
        self._numbering = numbering
        self._notes = dict(notes)
        self._diagrams = dict(diagrams)
        self._bold = bold

    def read_all(self, body: Element) -> tuple[Sequence[Part], str]:
        """Process a document, and return its parts and the title that its style marks."""
        self.read(body)
        return self.writer.close(), self.title

    def read(self, element: Element) -> None:
        """Process the children of an element."""
        for child in _flat(element):
            if child.tag == "{w}p":
                self._paragraph(child)
            elif child.tag == "{w}tbl":
                self._table(child)

    def _paragraph(self, paragraph: Element) -> None:
        text = _text(paragraph, without=_BOX).strip()
        style = value(paragraph, "{w}pPr/{w}pStyle")
        level = self._level(paragraph) or (self._bold and _is_bold(paragraph) and bold_level(text))
        number, depth = self._place(paragraph)
        label = self._numbering.label(number, depth)
        if text and level:
            self.writer.heading(f"{label} {text}" if label not in ("", "-") else text, level)
            self.title = self.title or (text if style in self._styles.titles else "")
        elif text and (number not in _NO_LIST or style in self._styles.listed):
            self.writer.item(text, depth=depth, marker=f"{label or '-'} ")
        elif text:
            self.writer.prose(text)
        self._add_notes(paragraph, without=_BOX)
        for drawn in _drawn(paragraph):
            if drawn.tag == _BOX:
                self.read(drawn)
            else:
                self._add_diagram(drawn.get("{r}dm", ""))

    def _add_diagram(self, reference: str) -> None:
        """Add the texts of a diagram, where it is referred to first."""
        diagram = self._diagrams.pop(reference, None)
        for text in map(_text, _all(diagram, "{a}p")):
            if text.strip():
                self.writer.item(text.strip())

    def _place(self, paragraph: Element) -> tuple[str, int]:
        """Return list and depth of a paragraph, its own or those of its style; an empty list for none."""
        of_style = self._styles.numbers.get(value(paragraph, "{w}pPr/{w}pStyle"), ("", 0))
        own = _number(paragraph)
        # A paragraph that is only moved in keeps the list of its style.
        return of_style if own is None else (own[0] or of_style[0], own[1])

    def _label(self, paragraph: Element) -> str:
        """Count one more paragraph, and return its number; empty for a bullet."""
        label = self._numbering.label(*self._place(paragraph))
        return "" if label == "-" else label

    def _level(self, paragraph: Element) -> int:
        own = value(paragraph, "{w}pPr/{w}outlineLvl")
        if own.isdecimal():
            return _outline_level(own)
        return self._styles.levels.get(value(paragraph, "{w}pPr/{w}pStyle"), 0)

    def _table(self, table: Element) -> None:
        rows = [row for row in _flat(table) if row.tag == "{w}tr" and row.find("{w}trPr/{w}del") is None]
        cells = [[cell for cell in _flat(row) if cell.tag == "{w}tc" and _is_kept(cell)] for row in rows]
        if any(self._is_layout(cell) for row in cells for cell in row):
            for row in cells:
                for cell in row:
                    self.read(cell)
        else:
            headers = sum(1 for _ in takewhile(_is_header, rows))
            texts = [self._columns(row, own) for row, own in zip(rows, cells, strict=True)]
            self.writer.table(texts, headers=headers)
            for row in cells:
                for cell in row:
                    self._add_notes(cell)

    def _columns(self, row: Element, cells: Sequence[Element]) -> list[str]:
        """Return the text of each column; a cell has its own in the first of those that it spans."""
        texts: list[str] = []
        free = _columns_of(row, "{w}trPr/{w}gridBefore")
        for cell in cells:
            texts += [*[""] * free, _text(cell, label=self._label)]
            free = _columns_of(cell, "{w}tcPr/{w}gridSpan", first=1)
        return texts

    def _add_notes(self, element: Element, *, without: str = "") -> None:
        """Add the notes that the visible text of an element refers to, each where it is referred to first."""
        # Few elements have any, and `iter` finds that faster.
        if any(next(element.iter(tag), None) is not None for tag in _REFERENCES):
            for reference in _references(element, without=without):
                note = self._notes.pop(reference, None)
                self.writer.note("" if note is None else _text(note))

    def _is_layout(self, cell: Element) -> bool:
        has_parts = any(cell.find(f".//{tag}") is not None for tag in ("{w}tbl", _DIAGRAM))
        return has_parts or any(self._level(child) for child in cell.iter("{w}p"))


def _is_kept(cell: Element) -> bool:
    return cell.find("{w}tcPr/{w}cellDel") is None


def _columns_of(element: Element, path: str, *, first: int = 0) -> int:
    """Return how many columns an element says that it takes beyond the first ones."""
    return min(max(whole(value(element, path), default=first) - first, 0), _MAX_SPAN)


def _is_bold(paragraph: Element) -> bool:
    runs = [run for run in _runs(paragraph) if _text(run, without=_BOX).strip()]
    return all(is_on(run.find("{w}rPr/{w}b")) for run in runs)


def _is_header(row: Element) -> bool:
    """Return whether a row is repeated at the top of each page."""
    return is_on(row.find("{w}trPr/{w}tblHeader"))


def _flat(element: Element) -> Iterator[Element]:
    """Yield the children, and those of transparent wrappers."""
    for child in element:
        if child.tag in _WRAPPERS:
            yield from _flat(child)
        else:
            yield child


def _drawn(element: Element) -> Iterator[Element]:
    """Yield the outermost text boxes and the references to diagrams."""
    for child in element:
        if child.tag in (_BOX, _DIAGRAM):
            yield child
        elif child.tag not in _UNREAD:
            yield from _drawn(child)


def _runs(element: Element) -> Iterator[Element]:
    """Yield the runs of a paragraph, but not those of its text boxes, which are in them."""
    for child in element:
        if child.tag == "{w}r":
            yield child
        elif child.tag not in _UNREAD:
            yield from _runs(child)


def _text(element: Element, *, without: str = "", label: Callable[[Element], str] | None = None) -> str:
    """Return the visible text of an element, with a line end after each paragraph, and its label before it."""
    tag = element.tag
    if tag in _TEXTS:
        return element.text or ""
    if tag in _SIGNS:
        return _SIGNS[tag]
    if tag in _DRAWN:
        return _DRAWN[tag](element)
    if _is_unread(element, without):
        return ""
    before = label(element) if label and tag == "{w}p" else ""
    inner = "".join(_text(child, without=without, label=label) for child in element)
    if tag != "{w}p":
        return inner
    return f"{before} {inner}\n" if before else f"{inner}\n"


def _symbol(element: Element) -> str:
    """Return the character for a sign of a symbol font; its attributes are in the name space of its element."""
    space = element.tag.partition("}")[0]
    return symbol(element.get(f"{space}}}font", ""), element.get(f"{space}}}char", ""))


def _check_box(element: Element) -> str:
    """Return the character for a check box of a form: ticked by its user, else by default."""
    state = element.find("{w}checked")
    state = element.find("{w}default") if state is None else state
    return "☒" if is_on(state) else "☐"


def _chosen(element: Element) -> str:
    """Return the entry of a drop-down list of a form that its user chose, else the one by default, else the first."""
    entries = [entry.get("{w}val", "") for entry in element.iterfind("{w}listEntry")]
    chosen = whole(value(element, "{w}result") or value(element, "{w}default"))
    return entries[chosen] if chosen < len(entries) else ""


def _formula(element: Element) -> str:
    return formula(element, _text)


_DRAWN: Mapping[str, Callable[[Element], str]] = {
    **dict.fromkeys(FORMULAS, _formula),
    "{w}sym": _symbol,
    "{w16se}symEx": _symbol,
    "{w}checkBox": _check_box,
    "{w}ddList": _chosen,
}
"""Elements that stand for a text: symbols, formulas, and fields of forms by their state."""


def _accept_deletions(element: Element) -> None:
    """Join paragraphs whose mark is deleted with the next one, as Word does when deletions are accepted."""
    for around in list(element.iter()):
        if any(_has_deleted_mark(child) for child in around):
            around[:] = list(_with_whole_paragraphs(around))


def _with_whole_paragraphs(around: Element) -> Iterator[Element]:
    """Yield the children; a paragraph whose mark is deleted gives what is visible of it to the next one."""
    open_ones: list[Element] = []
    for child in around:
        if _has_deleted_mark(child):
            open_ones.append(child)
        elif child.tag == "{w}p":
            first = int(child.find("{w}pPr") is not None)
            child[first:first] = [inner for one in open_ones for inner in one if inner.tag not in _UNREAD]
            open_ones = []
            yield child
        elif child.tag == "{w}tbl":
            yield from filter(_has_text, open_ones)
            open_ones = []
            yield child
        else:
            yield child
    yield from filter(_has_text, open_ones)


def _has_deleted_mark(element: Element) -> bool:
    return element.tag == "{w}p" and any(element.find(mark) is not None for mark in _DELETED_MARKS)


def _has_text(paragraph: Element) -> bool:
    return bool(_text(paragraph).strip())


def _leave_out(element: Element, switch: str, styles: Container[str]) -> None:
    """Take away what a style hides or strikes, of its run or its paragraph, unless the run itself says otherwise."""
    for paragraph in list(element.iter("{w}p")):
        around = value(paragraph, "{w}pPr/{w}pStyle")
        for run in list(paragraph.iter("{w}r")):
            if run.find(f"{{w}}rPr/{switch}") is None and (
                around in styles or value(run, "{w}rPr/{w}rStyle") in styles
            ):
                run.clear()


def _part_numbers(element: Element, styles: frozenset[str]) -> None:
    """Part digits of notes and powers from the number before or behind them, where a text has any."""
    if not styles and next(element.iter("{w}vertAlign"), None) is None:
        return
    for paragraph in element.iter("{w}p"):
        part_numbers(
            Piece(_is_shifted(run, styles), leaf)
            for run in _runs(paragraph)
            if not _is_unread(run, "")
            for leaf in run.iter()
            if leaf.tag in _TEXTS
        )


def _is_shifted(run: Element, styles: Container[str]) -> bool:
    own = value(run, _SHIFT)
    return own in _SHIFTED if own else value(run, "{w}rPr/{w}rStyle") in styles


def _hide_instructions(element: Element) -> None:
    """Take away results of fields that are part of the instruction of another field, which is not shown.

    A mail merge chooses its salutation so: `{ IF { MERGEFIELD Anrede } = "Herr" "Sehr geehrter Herr" "…" }`.
    """
    inside = list[list[Element] | None]()
    """Fields that have begun, innermost last: the texts of the instruction, None once the result began."""
    instructions = list[list[Element]]()
    """Those whose result has not begun."""
    for node in element.iter():
        if instructions and (node.tag in _TEXTS or node.tag in _SIGNS):
            instructions[-1].append(node)
        elif node.tag == _FIELD:
            kind = node.get("{w}fldCharType")
            if kind == "begin":
                instructions.append([])
                inside.append(instructions[-1])
            elif inside and kind in ("separate", "end"):
                if inside.pop() is not None:
                    for hidden in instructions.pop():
                        hidden.tag, hidden.text = "{w}t", ""
                if kind == "separate":
                    inside.append(None)


def _references(element: Element, *, without: str) -> Iterator[tuple[str, str]]:
    """Yield kind and id of each note that the visible text of an element refers to, in order."""
    for child in element:
        if child.tag in _REFERENCES:
            yield _REFERENCES[child.tag], child.get("{w}id", "")
        elif not _is_unread(child, without):
            yield from _references(child, without=without)


def _is_unread(element: Element, without: str) -> bool:
    look = element.find("{w}rPr") if element.tag == "{w}r" else None
    is_hidden = look is not None and any(is_on(look.find(switch)) for switch in _LEFT_OUT)
    return is_hidden or element.tag in _UNREAD or element.tag == without


def _outline_level(value: str) -> int:
    """Return the heading level of an outline level, which counts from 0; 9 means text."""
    return int(value[:2]) + 1 if int(value[:2]) < _MAX_LEVEL else 0


def _styles(styles: Element | None) -> _Styles:
    """Return the styles of headings and lists, including inherited properties."""
    by_id = {style.get("{w}styleId", ""): style for style in (() if styles is None else styles.iter("{w}style"))}
    levels, titles, listed, shifted = dict[str, int](), set[str](), set[str](), set[str]()
    left_out: dict[str, set[str]] = {}
    numbers: dict[str, tuple[str, int]] = {}
    for key in by_id:
        line = list(_line(key, by_id))
        names = [value(style, "{w}name").lower() for style in line]
        levels[key] = next((level for style in line if (level := _style_level(style)) is not None), 0)
        if "title" in names:
            levels[key] = levels[key] or 1
            titles.add(key)
        if any(name.startswith(_LIST_STYLES) for name in names):
            listed.add(key)
        for name in _LEFT_OUT:
            stated_by = (switch for style in line if (switch := style.find(f"{{w}}rPr/{name}")) is not None)
            if is_on(next(stated_by, None)):
                left_out.setdefault(name, set()).add(key)
        if next((shift for style in line if (shift := value(style, _SHIFT))), "") in _SHIFTED:
            shifted.add(key)
        stated = [number for style in line if (number := _number(style))]
        if listed_in := next((number for number, _ in stated if number), ""):
            numbers[key] = listed_in, stated[0][1]
    switched = {name: frozenset(styles) for name, styles in left_out.items()}
    return _Styles(levels, frozenset(titles), frozenset(listed), numbers, switched, frozenset(shifted))


def _number(element: Element) -> tuple[str, int] | None:
    """Return list and depth of a paragraph or style, without inheritance."""
    properties = element.find("{w}pPr/{w}numPr")
    if properties is None:
        return None
    depth = value(properties, "{w}ilvl")
    return value(properties, "{w}numId"), int(depth) if depth.isdecimal() and len(depth) == 1 else 0


def _line(key: str, by_id: Mapping[str, Element]) -> Iterator[Element]:
    """Yield a style and its ancestors, nearest first."""
    for _ in range(MAX_ANCESTORS):
        if key not in by_id:
            break
        yield by_id[key]
        key = value(by_id[key], "{w}basedOn")


def _style_level(style: Element) -> int | None:
    outline, name = value(style, "{w}pPr/{w}outlineLvl"), value(style, "{w}name").lower()
    if outline.isdecimal():
        return _outline_level(outline)
    return int(name[-1]) if name.startswith(_HEADING_STYLE) and name[-1:].isdecimal() else None


def _notes(package: Package, main: str) -> dict[tuple[str, str], Element]:
    return {
        (name, note.get("{w}id", "")): note
        for name in _REFERENCES.values()
        for note in _all(package.related(main, f"{name}s"), f"{{w}}{name}")
    }


def _diagrams(package: Package, main: str) -> dict[str, Element]:
    """Return the contents of diagrams by the ids of their relations."""
    related = [relation for relation in package.relations(main) if relation.kind == "diagramData"]
    read = ((relation.id, package.tree(relation.target)) for relation in related)
    return {reference: tree for reference, tree in read if tree is not None}


def _all(element: Element | None, tag: str) -> Iterator[Element]:
    return iter(()) if element is None else element.iter(tag)
