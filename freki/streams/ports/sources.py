"""Broker, claims and sources of documents, as stages see them."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Protocol

from freki.schemas import ClaimCheck, ContextQuery, ContextResult, Timestamp
from freki.schemas.avro import SchemaLookup
from freki.schemas.web import WebAnswer
from freki.streams.messages import Headers

Trees = Iterable[tuple[tuple[str, Timestamp], Sequence[tuple[str, str | None]]]]


class Producer(Protocol):
    """Takes records to the broker."""

    async def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> Awaitable[object]:
        """Queue a record, in order per partition; what is returned ends when the broker has stored it.

        Waits where too many are under way. Both raise Rejected for a record that can never be stored, such as one
        that is too large, and Unavailable where the broker is down. Owns its timeout.
        """


class ClaimReader(Protocol):
    """Where content lies that is too large for a record."""

    async def get(self, claim: ClaimCheck) -> bytes:
        """Load content that matches the claim's size and digest."""


class ClaimWriter(Protocol):
    """Takes content that is too large for a record."""

    async def put(self, content: bytes) -> ClaimCheck:
        """Store content under its digest."""


class SchemaRegistry(SchemaLookup, Protocol):
    """A schema registry, asked for what is not in memory."""

    async def prepare(self, values: Iterable[bytes | None]) -> None:
        """Read the schemas that values name."""


class Repository(Protocol):
    """One branch of a repository; all methods wait. Commits are id and time, changes path and blob, None: gone."""

    def head(self) -> str:
        """Give the commit that the branch is at."""

    def has(self, commit: str) -> bool:
        """Tell whether a commit is still there."""

    def commit(self, commit: str) -> tuple[str, Timestamp]:
        """Describe a commit."""

    def commits(self, since: str | None, head: str) -> Sequence[tuple[str, Timestamp]]:
        """Give the commits that lead to the head, oldest first, the head always; None: all."""

    def changes(self, since: str | None, commits: Sequence[tuple[str, Timestamp]]) -> Trees:
        """Give what leads from the tree of `since` to that of the last commit, step by step."""

    def tree(self, commit: str) -> Mapping[str, str]:
        """Give the files of a commit with their blobs."""

    def read(self, blob: str) -> bytes:
        """Give a content; raises one of `refusals` for one that is too large."""


class Fetch(Protocol):
    """Asks a server."""

    async def __call__(self, url: str, *, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        """Raises Unavailable where no answer comes, Rejected for an answer that is too large or not allowed."""


class QueryClient(Protocol):
    """Sends queries to a running Freki."""

    async def ask(self, query: ContextQuery, *, patience_s: float) -> ContextResult:
        """Return the result. Raises TimeoutError if none comes in time."""
