"""Document changes for crawled pages, and the indexing rules of a page."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b

from freki.operators.crawl import robots_rules
from freki.schemas import DocumentChange, DocumentId, Operation, Timestamp
from freki.schemas.web import WebAnswer
from freki.streams.feed.crawl_records import CrawlScope
from freki.streams.feed.page_study import PageStudy
from freki.streams.feed.polite_fetch import AGENT

MAX_ID_CHARS = 500
"""Maximum length of a document id, in characters."""
PAGES = frozenset({"text/html", "application/xhtml+xml"})
"""Media types of web pages."""


def upsert_of(
    answer: WebAnswer, content: str | bytes, scope: CrawlScope, *, version: int, now: Timestamp, language: str
) -> DocumentChange:
    """Return the change that publishes a page; language: empty if the page states none."""
    time = datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="seconds")
    return DocumentChange(
        tenant=scope.tenant,
        document_id=document_id(answer.url),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=now,
        media_type="text/html" if answer.media_type in PAGES else answer.media_type or None,
        source_uri=answer.url,
        principals=scope.principals,
        attributes={"source_url": answer.url, "crawl_timestamp": time} | ({"lang": language} if language else {}),
        priority=scope.priority,
        content=content,
    )


def deletion_of(url: str, scope: CrawlScope, *, version: int, now: Timestamp) -> DocumentChange:
    """Return the change that deletes a page."""
    return DocumentChange(
        tenant=scope.tenant,
        document_id=document_id(url),
        operation=Operation.DELETE,
        version=version,
        occurred_at=now,
        priority=scope.priority,
    )


def document_id(url: str) -> DocumentId:
    """Return the document id of a URL: the URL itself, a long one truncated with its hash."""
    if len(url) <= MAX_ID_CHARS:
        return DocumentId(url)
    digest = blake2b(url.encode(), digest_size=16).hexdigest()
    return DocumentId(f"{url[: MAX_ID_CHARS - len(digest) - 1]}#{digest}")


def followed(answer: WebAnswer, study: PageStudy) -> tuple[str, ...]:
    """Return the links of a page that the crawler may follow."""
    return () if study.links is None or rules_of(answer) & {"nofollow", "none"} else study.links.links


def is_indexed(answer: WebAnswer, study: PageStudy) -> bool:
    """Return whether a page may be indexed."""
    return (study.links is None or study.links.is_indexed) and rules_of(answer).isdisjoint({"noindex", "none"})


def rules_of(answer: WebAnswer) -> set[str]:
    """Return the rules of the header X-Robots-Tag, for all and for this crawler."""
    return robots_rules(answer.headers.get("x-robots-tag", ""), AGENT)


def validators(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a conditional request for a later visit."""
    pairs = (("If-None-Match", headers.get("etag")), ("If-Modified-Since", headers.get("last-modified")))
    return {name: value for name, value in pairs if value}
