"""Study of a crawled page: parsing and link extraction, in a child process."""

import json
from hashlib import blake2b

from freki.operators.crawl import PageLinks, read_links
from freki.operators.recognise import Profile
from freki.schemas.names import record
from freki.streams.ingest.parse import ParseLimits, parse


@record
class PageStudy:
    """Fingerprint and links of a page."""

    fingerprint: str
    """Hash of the visible content of a page, without tokens that change on every visit, or of a file; empty if none."""
    language: str
    """Language that the page states; may be empty."""
    links: PageLinks | None
    """None for a file."""


def study(url: str, media_type: str | None, content: str | bytes, *, limits: ParseLimits) -> PageStudy:
    """Return the study of a page or file. Raises UnreadableContent if no parser reads it."""
    parsed = parse(url.partition("?")[0].rpartition("/")[2] or url, media_type, content, limits=limits)
    document = parsed.document
    language = document.attributes.get("lang", "")
    is_page = parsed.profile is Profile.HTML and isinstance(content, str)
    # A file may hold more than its text, so all of it counts; a page holds much that is invisible.
    visible: list[str | None] = [document.title, language, document.text]
    basis = json.dumps(visible).encode() if isinstance(content, str) else content
    return PageStudy(
        fingerprint=blake2b(basis, digest_size=16).hexdigest() if document.text.strip() else "",
        language=language,
        links=read_links(content, url=url) if is_page and isinstance(content, str) else None,
    )
