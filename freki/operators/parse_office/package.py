"""The parts of an Office file, read with limits on size and nesting, since files are untrusted."""

import posixpath
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from io import BytesIO
from typing import NamedTuple, TypeVar
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from freki.operators.errors import UnreadableContent
from freki.schemas.outline import as_attributes
from freki.schemas.stated_time import stated_time

MAX_UNPACKED_BYTES = 64 * 1024 * 1024
"""Maximum size of all parts that are read; a thousand pages of text take about 20 MB."""
_MAX_ENTRIES = 10_000
_MAX_ELEMENTS = 1_000_000
"""Maximum elements of all trees; one takes about 300 bytes."""
_MAX_DEPTH = 200
"""Maximum nesting of elements; a nested table adds about ten."""
MAX_ANCESTORS = 20
"""Maximum styles that one inherits from: more would cost each style of a chain its whole length, and a cycle no end."""
_BLOCK_BYTES = 65_536
_ENCRYPTED_FLAG = 1
_CENTRAL_ENTRY = b"PK\x01\x02"

C = TypeVar("C", bound="Checker")

_OOXML = "http://schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_PREFIXES = {
    f"{_OOXML}/wordprocessingml/2006/main": "w",
    f"{_STRICT}/wordprocessingml/main": "w",
    f"{_OOXML}/spreadsheetml/2006/main": "x",
    f"{_STRICT}/spreadsheetml/main": "x",
    f"{_OOXML}/presentationml/2006/main": "p",
    f"{_STRICT}/presentationml/main": "p",
    f"{_OOXML}/drawingml/2006/main": "a",
    f"{_STRICT}/drawingml/main": "a",
    f"{_OOXML}/drawingml/2006/diagram": "dgm",
    f"{_STRICT}/drawingml/diagram": "dgm",
    f"{_OOXML}/officeDocument/2006/relationships": "r",
    f"{_STRICT}/officeDocument/relationships": "r",
    f"{_OOXML}/officeDocument/2006/math": "m",
    f"{_STRICT}/officeDocument/math": "m",
    f"{_OOXML}/markup-compatibility/2006": "mc",
    "http://schemas.microsoft.com/office/word/2015/wordml/symex": "w16se",
    f"{_OOXML}/package/2006/relationships": "rel",
    f"{_OOXML}/package/2006/metadata/core-properties": "cp",
    "http://purl.org/dc/elements/1.1/": "dc",
    f"{_ODF}:office:1.0": "office",
    f"{_ODF}:text:1.0": "text",
    f"{_ODF}:table:1.0": "table",
    f"{_ODF}:style:1.0": "style",
    f"{_ODF}:meta:1.0": "meta",
    f"{_ODF}:drawing:1.0": "draw",
    # LibreOffice writes whether a shape is shown in this one, and reads it in both.
    "http://openoffice.org/2010/draw": "draw",
    f"{_ODF}:svg-compatible:1.0": "svg",
    f"{_ODF}:xsl-fo-compatible:1.0": "fo",
    f"{_ODF}:presentation:1.0": "presentation",
    f"{_ODF}:form:1.0": "form",
    "urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0": "field",
    f"{_ODF}:manifest:1.0": "manifest",
    f"{_ODF}:container": "container",
    "http://purl.org/dc/terms/": "dcterms",
    "http://www.idpf.org/2007/opf": "opf",
    "http://www.w3.org/2001/04/xmlenc#": "xenc",
}
_CORE_FIELDS = {
    "{dc}creator": "author",
    "{dc}subject": "subject",
    "{dc}description": "description",
    "{cp}keywords": "keywords",
    "{meta}keyword": "keywords",
    "{dc}language": "lang",
}
_TIMES = {
    "{dcterms}created": "created",
    "{dcterms}modified": "modified",
    "{meta}creation-date": "created",
}


class Relation(NamedTuple):
    """A reference from one part to another."""

    id: str
    kind: str
    """Last word of its type, such as `slide` or `footnotes`."""
    target: str
    """Name of the part in the package."""


class Package:
    """A ZIP archive of XML parts, whose names have short prefixes, such as `{w}p`, in all versions of the standard."""

    def __init__(self, archive: ZipFile, *, max_unpacked_bytes: int) -> None:
        self._archive = archive
        self._names = frozenset(archive.namelist())
        self._bytes_left = self._most_bytes = max_unpacked_bytes
        self._elements_left = _MAX_ELEMENTS

    def tree(self, name: str) -> Element | None:
        """Return a part, or None where there is no such part."""
        if name not in self._names:
            return None
        builder = _Builder(self._count)
        self._parse(name, builder)
        return builder.tree

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a part, or None where there is no such part."""
        return b"".join(self._unpacked(name)) if name in self._names else None

    def check_all(self, checker: Callable[[], C]) -> dict[str, C]:
        """Check the limits for every XML part, for a reader without limits of its own; return the checker of each."""
        checked: dict[str, C] = {}
        for name in sorted(self._xml_parts()):
            checked[name] = checker()
            self._parse(name, checked[name])
        return checked

    def _xml_parts(self) -> frozenset[str]:
        """Return the parts that readers take for XML: by name, stated type, or as sheets of a workbook."""
        named = {name for name in self._names if name.lower().endswith((".xml", ".rels"))}
        types = self.tree("[Content_Types].xml")
        stated = {
            entry.get("PartName", "").removeprefix("/"): entry.get("ContentType", "").lower()
            for entry in (() if types is None else types)
        }
        xml = {name for name, kind in stated.items() if kind.endswith("xml")}
        workbooks = {self.main(), *(name for name in xml if stated[name].endswith("main+xml"))}
        return self._names & named.union(xml, *map(self._sheets, workbooks))

    def _sheets(self, workbook: str) -> set[str]:
        tree = self.tree(workbook)
        ids = {sheet.get("{r}id") for sheet in (() if tree is None else tree.iter("{x}sheet"))}
        return {relation.target for relation in self.relations(workbook) if relation.id in ids}

    def relations(self, name: str = "") -> Iterator[Relation]:
        """Yield the references of a part within the package; without a name, of the package itself."""
        folder, _, file = name.rpartition("/")
        relations = self.tree(posixpath.join(folder, "_rels", f"{file}.rels"))
        for relation in () if relations is None else relations:
            if relation.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, unquote(relation.get("Target", ""))))
                yield Relation(relation.get("Id", ""), relation.get("Type", "").rpartition("/")[2], target.lstrip("/"))

    def main(self) -> str:
        """Return the name of the main part. Raises UnreadableContent where there is none."""
        for relation in self.relations():
            if relation.kind == "officeDocument":
                return relation.target
        raise UnreadableContent("no document in the package: save it again")

    def related(self, name: str, kind: str) -> Element | None:
        """Return the first part of a kind that a part refers to."""
        return next((self.tree(relation.target) for relation in self.relations(name) if relation.kind == kind), None)

    def properties(self) -> tuple[str, Mapping[str, str]]:
        """Return title and attributes from docProps/core.xml or meta.xml."""
        core = self.related("", "core-properties")
        return stated(core if core is not None else self.tree("meta.xml"))

    def _parse(self, name: str, target: "Checker") -> None:
        parser = XMLParser(target=target)  # noqa: S314 - the target refuses what it warns of
        for block in self._unpacked(name):
            parser.feed(block)
        parser.close()

    def _count(self) -> None:
        self._elements_left -= 1
        if self._elements_left < 0:
            raise UnreadableContent(f"more than {_MAX_ELEMENTS} elements: split the document")

    def _unpacked(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a part; zipfile returns no more than its directory states."""
        info = self._archive.getinfo(name)
        if info.flag_bits & _ENCRYPTED_FLAG:
            raise UnreadableContent("encrypted: save it without a password")
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise UnreadableContent("packed in a way that Office does not: save it again")
        self._bytes_left -= info.file_size
        if self._bytes_left < 0:
            raise UnreadableContent(
                f"more than {self._most_bytes >> 20} MB unpacked: split it, or raise FREKI_PARSING__MAX_UNPACKED_MB"
            )
        with self._archive.open(info) as file:
            yield from iter(partial(file.read, _BLOCK_BYTES), b"")


@contextmanager
def opened(content: bytes, *, max_unpacked_bytes: int) -> Iterator[Package]:
    """Open a package. Raises UnreadableContent for invalid data, also while it is read."""
    if content.count(_CENTRAL_ENTRY) > _MAX_ENTRIES:
        raise UnreadableContent(f"more than {_MAX_ENTRIES} parts in the package: split the document")
    try:
        with ZipFile(BytesIO(content)) as archive:
            yield Package(archive, max_unpacked_bytes=max_unpacked_bytes)
    except (BadZipFile, ParseError, EOFError, LookupError, NotImplementedError, ValueError, zlib.error) as error:
        raise UnreadableContent("cut off or damaged: open it and save it again") from error


def stated(properties: Element | None) -> tuple[str, Mapping[str, str]]:
    """Return title and attributes from the properties of a document."""
    if properties is None:
        return "", {}
    fields = [(_CORE_FIELDS[field.tag], field.text or "") for field in properties.iter() if field.tag in _CORE_FIELDS]
    undated = "published" if properties.tag == "{opf}metadata" else "modified"
    times = [(name, stated_time(field.text or "")) for field in properties.iter() if (name := _time_of(field, undated))]
    title = next((field.text or "" for field in properties.iter("{dc}title")), "")
    return title, as_attributes([*fields, *times])


def _time_of(field: Element, undated: str) -> str:
    """Return which time a field of the properties states; empty for none. undated: that of a plain date."""
    if field.tag == "{opf}meta" and field.get("property") == "dcterms:modified":
        return "modified"
    if field.tag == "{dc}date":
        # OpenDocument has the last change there; EPUB 2 says what a date is of, and means publication if it does not.
        return {"modification": "modified", "creation": "created"}.get(field.get("{opf}event", ""), undated)
    return _TIMES.get(field.tag, "")


class Checker:
    """Rejects excessive nesting, and document types, which allow external and recursive entities."""

    def __init__(self) -> None:
        self._depth = 0

    def start(self, _tag: str, _attributes: dict[str, str], /) -> None:
        """Process the start of an element. Raises UnreadableContent if it is nested too deep."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnreadableContent(f"nested more than {_MAX_DEPTH} deep: save it again with fewer tables in tables")

    def end(self, _tag: str, /) -> None:
        """Process the end of an element."""
        self._depth -= 1

    def close(self) -> None:
        """Do nothing: the parser reports a missing end."""

    def doctype(self, _name: str, _public: str | None, _system: str | None, /) -> None:
        """Refuse the document."""
        raise UnreadableContent("declares a document type, as no Office program does: open it and save it again")


class _Builder(Checker):
    """Builds a tree with short prefixes, and counts its elements."""

    def __init__(self, count: Callable[[], None]) -> None:
        super().__init__()
        self._count = count
        self._builder = TreeBuilder()

    @property
    def tree(self) -> Element:
        """Return the root of the complete tree."""
        return self._builder.close()

    def start(self, tag: str, attributes: dict[str, str], /) -> None:
        super().start(tag, attributes)
        self._count()
        self._builder.start(short(tag), {short(name): value for name, value in attributes.items()})

    def end(self, tag: str, /) -> None:
        super().end(tag)
        self._builder.end(short(tag))

    def data(self, data: str, /) -> None:
        self._builder.data(data)


@lru_cache(maxsize=4096)
def short(name: str) -> str:
    """Return the name of an element or attribute with the prefix of its name space."""
    namespace, brace, local = name[1:].rpartition("}")
    return f"{{{_PREFIXES.get(namespace, namespace)}}}{local}" if brace else name
