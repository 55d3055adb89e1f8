"""What a crawler makes of a page: composes parsing and reading links, in a process of its own."""

import json
from hashlib import blake2b

from freki.operators.crawl import PageLinks, read_links
from freki.operators.recognise import Profile
from freki.schemas.names import record
from freki.streams.ingest.parse import ParseLimits, parse


@record
class PageStudy:
    """What decides whether a page has changed, and where it leads."""

    fingerprint: str
    """Of what a reader sees; empty where that is nothing. What changes with every visit, as tokens do, is no part."""
    language: str
    """As the page says; may be empty."""
    links: PageLinks | None
    """None for a file."""


def study(url: str, media_type: str | None, content: str | bytes, *, limits: ParseLimits) -> PageStudy:
    """Parse and read links. Raises UnreadableContent for what no parser reads."""
    parsed = parse(url.partition("?")[0].rpartition("/")[2] or url, media_type, content, limits=limits)
    document = parsed.document
    language = document.attributes.get("lang", "")
    is_page = parsed.profile is Profile.HTML and isinstance(content, str)
    # A file may say more than its text, a page holds much that nobody sees.
    seen: list[str | None] = [document.title, language, document.text]
    basis = json.dumps(seen).encode() if isinstance(content, str) else content
    return PageStudy(
        fingerprint=blake2b(basis, digest_size=16).hexdigest() if document.text.strip() else "",
        language=language,
        links=read_links(content, url=url) if is_page and isinstance(content, str) else None,
    )
