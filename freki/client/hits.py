"""Hits of an answer for frameworks that retrieve."""

from typing import Any, Protocol, Unpack

from freki.client.aio import Client
from freki.client.fields import QueryFields
from freki.schemas import ContextHit, ContextResult, ResultStatus
from freki.schemas.errors import Rejected, Unanswered


class Asks(Protocol):
    """An open client, such as `BlockingClient`."""

    def ask(self, question: str, /, **fields: Unpack[QueryFields]) -> ContextResult:
        """Return the answer."""


def blocking(client: Any) -> Any:  # noqa: ANN401 - LangChain checks what it is given
    """Return a client whose `ask` returns the answer.

    Raises TypeError for one for asyncio: retrievers call it in threads, for coroutines too.
    """
    if isinstance(client, Client):
        raise TypeError(
            "a Client cannot be asked in threads: give an open BlockingClient; it may be used in coroutines too"
        )
    return client


def hits_of(result: ContextResult) -> tuple[ContextHit, ...]:
    """Return the hits, best first; none if nothing was found.

    Raises Rejected where the query broke a rule, and Unanswered where there was no time for it, or where there are
    no hits and searching failed: an empty list would say that nothing is there.
    """
    if result.failures:
        raise Unanswered(f"the query was not answered: {'; '.join(result.failures)}")
    if result.status in {ResultStatus.REJECTED, ResultStatus.EXPIRED}:
        told = "; ".join(notice.message for notice in result.notices) or result.status
        kind = Rejected if result.status is ResultStatus.REJECTED else Unanswered
        raise kind(f"the query was not answered: {told}")
    return result.hits


def metadata_of(hit: ContextHit, result: ContextResult) -> dict[str, Any]:
    """Return what is known of a hit besides its text, as JSON has it."""
    return {
        "document_id": hit.document_id,
        "version": hit.version,
        "chunk_id": hit.chunk_id,
        "name": hit.name,
        "source_uri": hit.source_uri,
        "language": hit.language,
        "heading_path": list(hit.heading_path),
        "start": hit.start,
        "end": hit.end,
        "first_page": hit.first_page,
        "last_page": hit.last_page,
        "citation": hit.citation,
        # Written by a language model: not to be quoted.
        "generated": hit.generated,
        "score": hit.score,
        "occurred_at": hit.occurred_at,
        # Whether steps were left out; their notices are in the answer itself.
        "status": str(result.status),
    }
