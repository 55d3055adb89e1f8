"""The readable text and outline of a PPTX."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.formulas import FORMULAS, formula
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES, Package, opened
from freki.operators.parse_office.raised import Piece, part_numbers
from freki.operators.parse_office.writer import OfficeOutlineWriter
from freki.schemas.outline import ParsedDocument, assemble

_TITLES = {"title", "ctrTitle"}
_RUNNING = {"dt", "ftr", "hdr", "sldNum"}
_WRAPPERS = {"{p}grpSp", "{mc}AlternateContent", "{mc}Choice"}
_SHAPES = {"{p}sp", "{p}cxnSp"}
_TEXTS = {"{a}t", "{m}t"}
_OFF = {"0", "false"}
_NO_STRIKE = "noStrike"


def parse_pptx(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the slides of a PPTX, each a page: its title as a heading, then its shapes in their order, then its notes.

    Several paragraphs in one placeholder are a list. Hidden slides are left out but counted, as PowerPoint does; hidden
    shapes, text struck through, dates, footers and slide numbers are left out, and so are charts and pictures. Raises
    UnreadableContent for files that are damaged, encrypted, larger than `max_unpacked_bytes` unpacked, or nested too
    deep.
    """
    with opened(content, max_unpacked_bytes=max_unpacked_bytes) as package:
        slides = _slides(package)
        writer = OfficeOutlineWriter()
        for page, name in enumerate(slides):
            writer.page = page
            _slide(package, name, writer)
            writer.close()
        title, attributes = package.properties()
    return assemble(writer.close(), pages=len(slides), title=title, attributes=attributes)


def _slides(package: Package) -> list[str]:
    """Return the names of the slides, in the order of the presentation."""
    main = package.main()
    presentation = package.tree(main)
    if presentation is None or presentation.tag != "{p}presentation":
        raise UnreadableContent("no presentation in the package: save it as PPTX")
    targets = {relation.id: relation.target for relation in package.relations(main)}
    return [targets.get(slide.get("{r}id", ""), "") for slide in presentation.iterfind("{p}sldIdLst/{p}sldId")]


def _slide(package: Package, name: str, writer: OfficeOutlineWriter) -> None:
    slide = package.tree(name)
    shapes = None if slide is None else slide.find("{p}cSld/{p}spTree")
    if slide is None or shapes is None or slide.get("show") in _OFF:
        return
    _part_numbers(slide)
    found = list(_shapes(shapes))
    # A title may be in front of the other shapes, and so after them in the file.
    found.sort(key=lambda shape: _placeholder(shape) not in _TITLES)
    for shape in found:
        _shape(shape, writer)
    for relation in package.relations(name):
        part = package.tree(relation.target) if relation.kind in {"diagramData", "notesSlide"} else None
        if part is not None:
            _part_numbers(part)
        if part is not None and relation.kind == "diagramData":
            for paragraph in _paragraphs(part):
                writer.item(_text(paragraph))
        elif part is not None:
            notes = [shape for shape in part.iter("{p}sp") if _placeholder(shape) == "body"]
            writer.prose("\n".join(_text(paragraph) for shape in notes for paragraph in _paragraphs(shape)))


def _shapes(element: Element) -> Iterator[Element]:
    """Yield the shapes that are shown, in order."""
    for child in element:
        named = child.find("*/{p}cNvPr")
        if named is not None and named.get("hidden", "0") not in _OFF:
            continue
        if child.tag in _WRAPPERS:
            yield from _shapes(child)
        elif child.tag in _SHAPES or child.tag == "{p}graphicFrame":
            yield child


def _placeholder(shape: Element) -> str | None:
    """Return the type of a placeholder; None for other shapes."""
    placeholder = shape.find("{p}nvSpPr/{p}nvPr/{p}ph")
    return None if placeholder is None else placeholder.get("type", "obj")


def _shape(shape: Element, writer: OfficeOutlineWriter) -> None:
    kind = _placeholder(shape)
    if shape.tag == "{p}graphicFrame":
        for table in shape.iter("{a}tbl"):
            writer.table([[_lines(cell) for cell in row.iterfind("{a}tc")] for row in table.iterfind("{a}tr")])
        return
    paragraphs = [paragraph for paragraph in _paragraphs(shape) if _text(paragraph).strip()]
    if kind in _RUNNING or not paragraphs:
        return
    if kind in _TITLES:
        writer.heading(_lines(shape), 1)
    elif kind is not None and len(paragraphs) > 1:
        for paragraph in paragraphs:
            writer.item(_text(paragraph), depth=_depth(paragraph))
        writer.close()
    else:
        writer.prose(_lines(shape))


def _paragraphs(element: Element) -> Iterator[Element]:
    return element.iter("{a}p")


def _lines(element: Element) -> str:
    return "\n".join(_text(paragraph) for paragraph in _paragraphs(element))


def _depth(paragraph: Element) -> int:
    properties = paragraph.find("{a}pPr")
    level = "" if properties is None else properties.get("lvl", "")
    return int(level) if level.isdecimal() and len(level) == 1 else 0


def _part_numbers(part: Element) -> None:
    """Part digits of notes and powers from the number before or behind them."""
    for paragraph in _paragraphs(part):
        texts = ((_is_shifted(run), run.find("{a}t")) for run in paragraph.iter("{a}r"))
        part_numbers(Piece(shifted, text) for shifted, text in texts if text is not None)


def _is_shifted(run: Element) -> bool:
    look = run.find("{a}rPr")
    return look is not None and look.get("baseline", "0").rstrip("%") != "0"


def _is_struck(run: Element) -> bool:
    """Return whether a text is struck through and no longer holds."""
    look = run.find("{a}rPr")
    return look is not None and look.get("strike", _NO_STRIKE) != _NO_STRIKE


def _text(element: Element) -> str:
    if element.tag in _TEXTS:
        return element.text or ""
    if element.tag in FORMULAS:
        return formula(element, _text)
    if element.tag == "{a}r" and _is_struck(element):
        return ""
    return "\n" if element.tag == "{a}br" else "".join(map(_text, element))
