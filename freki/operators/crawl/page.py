"""Links and metadata of a page."""

import codecs
import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from freki.operators.crawl.url import normalise_url
from freki.schemas.charsets import text_codec
from freki.schemas.names import record

MAX_LINKS = 5000
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_STATED = re.compile(
    r"""\A<\?xml\b[^<>]{0,200}\bencoding\s*=\s*["']([\w.:-]+)|<meta\b[^<>]{0,300}\bcharset\s*=\s*["']?\s*([\w.:-]+)""",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_REFRESH = re.compile(r"\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?(\S+)", re.IGNORECASE)
_OPTION = re.compile(r"</?option\b[^<>]*>", re.IGNORECASE)
_HEAD_BYTES = 2048
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@record
class PageLinks:
    """Links and indexing directives of a page."""

    links: tuple[str, ...]
    """URLs in the order of the page, each once, without nofollow links."""
    refresh: str | None
    """URL that `<meta http-equiv=refresh>` leads on to; one of the links if these are followed."""
    canonical: str | None
    """Canonical URL that the page states."""
    is_indexed: bool
    """Whether the page may be indexed; False for noindex."""
    asks_password: bool
    """Whether the page has a field for a password."""


def read_links(html: str, *, url: str) -> PageLinks:
    """Return the links of the page at `url`, at most 5,000.

    Respects `<base>`, `<meta http-equiv=refresh>`, `rel=nofollow` and `<meta name=robots>`.
    """
    # Options have no links, and at each one the parser looks at all of its menu.
    tree = LexborHTMLParser(_OPTION.sub("", html))
    base = next(_addresses(tree, "base[href]", url), url)
    rules = {
        rule.strip().lower()
        for meta in tree.css("meta[name][content]")
        if (meta.attributes["name"] or "").lower() in {"robots", "freki"}
        for rule in (meta.attributes["content"] or "").split(",")
    }
    follows = rules.isdisjoint({"nofollow", "none"})
    refresh = next(
        filter(None, (_refresh(node, base) for node in tree.css("meta[http-equiv=refresh i][content]"))), None
    )
    linked = filter(None, [refresh, *_addresses(tree, "a[href], area[href]", base)])
    links = dict.fromkeys(linked) if follows else {}
    return PageLinks(
        links=tuple(links)[:MAX_LINKS],
        refresh=refresh,
        canonical=next(_addresses(tree, "link[rel~=canonical][href]", base), None),
        is_indexed=rules.isdisjoint({"noindex", "none"}),
        asks_password=tree.css_first("input[type=password i]") is not None,
    )


def decode_page(content: bytes, content_type: str) -> str:
    """Return the text of a page, decoded by byte order mark, header, `<?xml` or `<meta>`, else UTF-8.

    Unknown encodings are passed over. Invalid bytes become U+FFFD, as in a browser.
    """
    marked = next((encoding for mark, encoding in _BOMS if content.startswith(mark)), None)
    encodings = filter(None, map(_encoding, _labels(content, content_type)))
    return content.decode(marked or next(encodings, "utf-8"), errors="replace")


def _labels(content: bytes, content_type: str) -> Iterator[str]:
    if match := _CHARSET.search(content_type):
        yield match[1]
    head = _COMMENT.sub("", content[:_HEAD_BYTES].decode("latin-1"))
    yield from (match[1] or match[2] for match in _STATED.finditer(head))


def _encoding(label: str) -> str | None:
    try:
        codec = text_codec(label)
    except LookupError:
        return None
    # A page without a byte order mark is hardly in UTF-16 or UTF-32: browsers read one whose `<meta>` says so as UTF-8.
    return "utf-8" if codec.startswith("utf-") else codec


def _refresh(meta: LexborNode, base: str) -> str | None:
    found = _REFRESH.match(meta.attributes["content"] or "")
    return None if found is None else normalise_url(found[1].strip("\"'"), base=base)


def _addresses(tree: LexborHTMLParser, selector: str, base: str) -> Iterator[str]:
    for node in tree.css(selector):
        if "nofollow" in (node.attributes.get("rel") or "").lower().split():
            continue
        address = normalise_url(node.attributes.get("href") or "", base=base)
        if address is not None:
            yield address
