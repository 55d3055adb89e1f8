"""Parsing of sitemaps."""

import zlib
from xml.etree.ElementTree import ParseError, XMLParser

from freki.operators.crawl.url import normalise_url
from freki.operators.errors import UnreadableContent
from freki.schemas.names import record

MAX_BYTES = 50 * 1024 * 1024
MAX_ENTRIES = 50_000
_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31


@record
class Sitemap:
    """URLs of pages and sitemaps in a sitemap, in order."""

    pages: tuple[str, ...]
    sitemaps: tuple[str, ...]
    is_whole: bool
    """Whether it has no more than `MAX_ENTRIES` of either: further ones are left out."""


def read_sitemap(content: bytes, *, url: str) -> Sitemap:
    """Read a sitemap or an index of sitemaps, plain or gzipped, within the limits of its standard.

    Raises UnreadableContent for anything else. Source: sitemaps.org, protocol 0.9.
    """
    if content.startswith(_GZIP):
        content = _unpacked(content)
    if len(content) > MAX_BYTES:
        raise UnreadableContent(f"{url}: more than {MAX_BYTES} bytes")
    reader = _Reader()
    parser = XMLParser(target=reader)  # noqa: S314 - the reader refuses what could define entities
    try:
        parser.feed(content)
        parser.close()
    except (ParseError, LookupError, ValueError) as error:
        raise UnreadableContent(f"{url} is no sitemap: {error}") from error
    return Sitemap(
        pages=_addresses(reader.found["url"], url),
        sitemaps=_addresses(reader.found["sitemap"], url),
        is_whole=all(len(found) <= MAX_ENTRIES for found in reader.found.values()),
    )


def _unpacked(content: bytes) -> bytes:
    try:
        return zlib.decompressobj(_GZIP_WINDOW).decompress(content, MAX_BYTES + 1)
    except zlib.error as error:
        raise UnreadableContent(f"damaged: {error}") from error


def _addresses(found: list[str], base: str) -> tuple[str, ...]:
    addresses = (normalise_url(text, base=base) for text in found[:MAX_ENTRIES])
    return tuple(dict.fromkeys(address for address in addresses if address is not None))


class _Reader:
    """Collects the `<loc>` of each `<url>` and `<sitemap>` without building a tree."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {"url": [], "sitemap": []}
        self._above: list[str] = []
        self._text: list[str] = []

    def doctype(self, *_: str | None) -> None:
        raise ValueError("it has a document type")

    def start(self, tag: str, _: dict[str, str]) -> None:
        self._above.append(tag.rpartition("}")[2])
        self._text = []

    def data(self, text: str) -> None:
        self._text.append(text)

    def end(self, _: str) -> None:
        tag = self._above.pop()
        if tag == "loc" and self._above and self._above[-1] in self.found:
            self.found[self._above[-1]].append("".join(self._text).strip())

    def close(self) -> None:
        """Do nothing."""
