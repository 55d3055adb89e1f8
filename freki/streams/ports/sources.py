"""Protocols of the broker, the claim store, the schema registry and sources of documents."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from freki.schemas import ClaimCheck, ContextQuery, ContextResult, Timestamp
from freki.schemas.avro import SchemaLookup
from freki.schemas.identity import RefusalReason
from freki.schemas.web import WebAnswer
from freki.streams.messages import Headers

Trees = Iterable[tuple[tuple[str, Timestamp], Sequence[tuple[str, str | None]]]]
"""Commits (id, time) with their changes (path, blob; None: deleted)."""


class Producer(Protocol):
    """Producer of Kafka records."""

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Awaitable[object]:
        """Queue a record, in order per partition; return an awaitable that ends once the broker has stored it.

        partition: None: that of the key.

        Waits while too many records are in flight. Call and awaitable raise Rejected for a record that can never be
        stored, such as an oversized one, and Unavailable while the broker is down. Owns its timeout.
        """


class ClaimReader(Protocol):
    """Reader of content that is too large for a record."""

    async def get(self, claim: ClaimCheck) -> bytes:
        """Return the content of a claim, checked against its size and digest."""


class Scanner(Protocol):
    """Scanner of content for malware."""

    engine: str
    """Name for receipts, such as `clamd`."""

    async def scan(self, content: bytes) -> str | None:
        """Return the name of what was found; None if the content is clean.

        Raises Unavailable without a verdict, and Rejected for content that can never be scanned. Owns its timeout.
        """


class Ocr(Protocol):
    """Recogniser of text in scans."""

    async def read(self, content: bytes, media_type: str) -> tuple[bytes, str]:
        """Return a scan with its text, as PDF or text, and the media type of that; empty: by its content.

        media_type: of the scan, a PDF or picture. Raises Unavailable where it may succeed later, and Rejected for a
        scan that can never be read. Owns its timeout.
        """


class SchemaRegistry(SchemaLookup, Protocol):
    """Schema registry with a local cache."""

    async def prepare(self, values: Iterable[bytes | None]) -> None:
        """Fetch the schemas that values refer to."""


class Repository(Protocol):
    """One branch of a Git repository; all methods block. Commits: (id, time); changes: (path, blob; None: deleted)."""

    def head(self) -> str:
        """Return the id of the branch's head."""

    def has(self, commit: str) -> bool:
        """Return whether a commit still exists."""

    def commit(self, commit: str) -> tuple[str, Timestamp]:
        """Return id and time of a commit."""

    def commits(self, since: str | None, head: str) -> Sequence[tuple[str, Timestamp]]:
        """Return the commits after `since` up to the head, oldest first, always with the head; None: all."""

    def changes(self, since: str | None, commits: Sequence[tuple[str, Timestamp]]) -> Trees:
        """Return the changes of each commit, from the tree of `since` to that of the last commit."""

    def tree(self, commit: str) -> Mapping[str, str]:
        """Return the blobs of a commit's files by path."""

    def read(self, blob: str) -> bytes:
        """Return the content of a blob. Raises Rejected if it is too large."""


class Fetch(Protocol):
    """HTTP GET request."""

    async def __call__(self, url: str, *, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        """Return the response. Raises Unavailable without a response, Rejected if it is too large or not allowed."""


class QueryClient(Protocol):
    """Sends queries to a running Freki."""

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:
        """Return the result; token: of who asks, not the client's. Raises TimeoutError if none comes in time."""


class TokenVerifier(Protocol):
    """Verifies who signed a token."""

    async def claims(self, token: bytes) -> Mapping[str, Any] | RefusalReason:
        """Return the claims of a token with a valid signature, or why it is refused; times are not judged."""
