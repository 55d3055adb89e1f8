"""The readable text and outline of an ODT."""

import re
from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES, Package, opened
from freki.operators.parse_office.writer import Writer
from freki.schemas.outline import ParsedDocument, assemble

_PARAGRAPHS = {"{text}p", "{text}h"}
_UNREAD = {"{text}tracked-changes", "{office}annotation", "{office}forms", "{text}ruby-text", "{svg}title", "{svg}desc"}
_ROW_GROUPS = {"{table}table-header-rows", "{table}table-rows", "{table}table-row-group"}
_SIGNS = {"{text}tab": "\t", "{text}line-break": "\n"}
_APART = {"{text}note", "{draw}text-box"}
"""Stand within a paragraph and are no part of its text."""
_CELLS = {"{table}table-cell", "{table}covered-table-cell"}
_SPACE = re.compile(r"[ \t\r\n]+")
_MAX_SPACES = 100
_MAX_LEVEL_DIGITS = 2


def parse_odt(content: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Read what a reader sees of an ODT: headings, paragraphs, lists, tables, text boxes, footnotes where they belong.

    A paragraph of the style "Title" is a heading of level 1. A table that holds a heading or a table is layout: its
    parts are blocks of their own, and so are those of a list that holds a heading. Tracked deletions, comments, headers
    and footers are left out. There are no pages: they are made by whatever prints the file. Raises UnreadableContent
    for what is damaged, encrypted, larger than `max_unpacked_bytes` unpacked, or nested too deep.
    """
    with opened(content, max_unpacked_bytes=max_unpacked_bytes) as package:
        _refuse_encrypted(package)
        document = package.tree("content.xml")
        text = None if document is None else document.find("{office}body/{office}text")
        if document is None or text is None:
            raise UnreadableContent("no text document in the package: save it as ODT")
        reader = _Reader(_parents(document))
        reader.read(text)
        title, attributes = package.properties()
    return assemble(reader.writer.close(), title=title or reader.title, attributes=attributes)


def _refuse_encrypted(package: Package) -> None:
    manifest = package.tree("META-INF/manifest.xml")
    if manifest is not None and next(manifest.iter("{manifest}encryption-data"), None) is not None:
        raise UnreadableContent("encrypted: save it without a password")


def _parents(document: Element) -> dict[str, str]:
    """Return the style that each style of the document is based on."""
    return {
        style.get("{style}name", ""): style.get("{style}parent-style-name", "")
        for style in document.iterfind("{office}automatic-styles/{style}style")
    }


class _Reader:
    """Takes up paragraphs, lists and tables in order."""

    def __init__(self, parents: Mapping[str, str]) -> None:
        self.writer = Writer()
        self.title = ""
        self._parents = parents

    def read(self, element: Element) -> None:
        """Take up what an element holds."""
        for child in element:
            if child.tag in _PARAGRAPHS:
                self._paragraph(child)
            elif child.tag == "{text}list" and not _holds(child, "{text}h"):
                self._list(child)
            elif child.tag == "{table}table" and not _holds(child, "{text}h", "{table}table"):
                self.writer.table([[_joined(cell) for cell in row] for row in _rows(child)])
            elif child.tag not in _UNREAD:
                self.read(child)

    def _paragraph(self, paragraph: Element) -> None:
        text = _text(paragraph)
        level = self._level(paragraph)
        if level and text.strip():
            self.writer.heading(text, level)
            self.title = self.title or (text if paragraph.tag == "{text}p" else "")
        else:
            self.writer.prose(text)
        self._apart(paragraph)

    def _level(self, paragraph: Element) -> int:
        if paragraph.tag == "{text}h":
            level = paragraph.get("{text}outline-level", "")[:_MAX_LEVEL_DIGITS]
            return max(int(level), 1) if level.isdecimal() else 1
        style = paragraph.get("{text}style-name", "")
        return int("Title" in (style, self._parents.get(style)))

    def _list(self, listed: Element, depth: int = 0) -> None:
        for item in listed:
            marker = "- "
            for child in item:
                if child.tag == "{text}list":
                    self._list(child, depth + 1)
                elif child.tag in _PARAGRAPHS:
                    self.writer.item(_text(child), depth=depth, marker=marker)
                    marker = "  "
                    self._apart(child)

    def _apart(self, paragraph: Element) -> None:
        for element in _found(paragraph, _APART):
            if element.tag == "{text}note":
                self.writer.note(" ".join(_joined(body) for body in element.iterfind("{text}note-body")))
            else:
                self.read(element)


def _holds(element: Element, *tags: str) -> bool:
    return any(inner is not element for tag in tags for inner in element.iter(tag))


def _rows(table: Element) -> Iterator[list[Element]]:
    for child in table:
        if child.tag in _ROW_GROUPS:
            yield from _rows(child)
        elif child.tag == "{table}table-row":
            yield [cell for cell in child if cell.tag in _CELLS]


def _found(element: Element, tags: set[str]) -> Iterator[Element]:
    """Yield the outermost elements with one of the tags."""
    for child in element:
        if child.tag in tags:
            yield child
        elif child.tag not in _UNREAD:
            yield from _found(child, tags)


def _joined(element: Element) -> str:
    """Return the paragraphs in an element, each followed by what stands apart within it."""
    texts = []
    for paragraph in _found(element, _PARAGRAPHS):
        texts += [_text(paragraph), *map(_joined, _found(paragraph, _APART))]
    return " ".join(texts)


def _text(element: Element) -> str:
    """Return what a reader sees of a paragraph. White space folds, as the standard has it."""
    texts = [_SPACE.sub(" ", element.text or "")]
    for child in element:
        if child.tag == "{text}s":
            count = child.get("{text}c", "1")
            texts.append(" " * (min(int(count[:4]), _MAX_SPACES) if count.isdecimal() else 1))
        elif child.tag in _SIGNS:
            texts.append(_SIGNS[child.tag])
        elif child.tag not in _UNREAD and child.tag not in _APART:
            texts.append(_text(child))
        texts.append(_SPACE.sub(" ", child.tail or ""))
    return "".join(texts)
