"""The readable text and outline of an EPUB."""

import codecs
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office.package import MAX_UNPACKED_BYTES, Package, opened, stated
from freki.schemas.charsets import text_codec
from freki.schemas.outline import ParsedDocument, concatenated

Parse = Callable[[str], ParsedDocument]

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = {"application/xhtml+xml", "text/html"}
_NAVIGATION = "nav"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_STATED_ENCODING = re.compile(rb"""\s*<\?xml[^<>]{0,200}\bencoding\s*=\s*["']([\w.:-]+)""", re.ASCII)


def parse_epub(content: bytes, *, html: Parse, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> ParsedDocument:
    """Parse the chapters of an EPUB 2 or 3, in their order of reading; `html` parses each.

    Title, author, language and dates come from the metadata. The table of contents and what is not in the order of
    reading are left out. There are no pages, which depend on the reader. Raises UnreadableContent for files that are
    damaged, copy-protected, or larger than `max_unpacked_bytes` unpacked.
    """
    with opened(content, max_unpacked_bytes=max_unpacked_bytes) as package:
        name, book = _book(package)
        protected = set(_protected(package))
        chapters = []
        for chapter in _chapters(book, posixpath.dirname(name)):
            if chapter in protected:
                raise UnreadableContent("copy-protected (DRM): send a copy without protection")
            page = package.content(chapter)
            if page is not None:
                chapters.append(html(_decoded(page)))
        title, attributes = stated(book.find("{opf}metadata"))
    return replace(concatenated(chapters), title=title or None, attributes=_without_parts(attributes))


def _book(package: Package) -> tuple[str, Element]:
    """Return name and content of the package document."""
    container = package.tree(_CONTAINER)
    found = () if container is None else container.iter("{container}rootfile")
    name = next((each.get("full-path", "") for each in found), "")
    book = package.tree(name)
    if book is None:
        raise UnreadableContent("no book in the package: save it again as EPUB")
    return name, book


def _chapters(book: Element, folder: str) -> Iterator[str]:
    """Yield the names of the chapters in their order."""
    items = {item.get("id", ""): item for item in book.iter("{opf}item")}
    for reference in book.iter("{opf}itemref"):
        item = items.get(reference.get("idref", ""))
        if item is None or item.get("media-type") not in _PAGES or _NAVIGATION in item.get("properties", "").split():
            continue
        yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", "")))).lstrip("/")


def _decoded(page: bytes) -> str:
    """Return the text of a chapter: UTF-8, UTF-16 by its mark, or in the encoding that it states.

    No other is guessed, as it is for a file of its own: chapters are UTF-8 or UTF-16 by the standard, so other bytes
    are damage, for which no book is refused.
    """
    stated_encoding = _STATED_ENCODING.match(page)
    named = "utf-16" if page.startswith(_UTF_16) else stated_encoding[1].decode() if stated_encoding else ""
    for encoding in ("utf-8-sig", named):
        with suppress(LookupError, UnicodeError):
            return page.decode(text_codec(encoding))
    return page.decode("utf-8", errors="replace")


def _protected(package: Package) -> Iterator[str]:
    """Yield the names of encrypted parts; fonts may be, which is no matter."""
    encryption = package.tree(_ENCRYPTION)
    for reference in () if encryption is None else encryption.iter("{xenc}CipherReference"):
        yield unquote(reference.get("URI", ""))


def _without_parts(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """Leave out the description, which shops fill with advertisements."""
    return {name: value for name, value in attributes.items() if name != "description"}
