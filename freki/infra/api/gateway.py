"""What the APIs call, and how they understand the answers."""

from collections.abc import AsyncGenerator
from typing import Protocol

from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    IndexOutcome,
    Judgement,
    ResultStatus,
    StageTime,
)
from freki.schemas.limits import LIMIT

MOST_WAIT_MS = 120_000
"""Longest wait for a receipt."""
NO_ANSWER = "no answer by the deadline: does a worker run the retrieve stage, and do enough? `freki status` shows them"


class Gateway(Protocol):
    """What the APIs call."""

    @property
    def hears_broker(self) -> bool:
        """Whether the broker answered when it was last asked."""

    async def publish(self, change: DocumentChange, *, wait_s: float) -> IndexOutcome | None:
        """Store a change; return its receipt, or None if none came in time."""

    async def ask(self, query: ContextQuery, *, token: str | None) -> ContextResult:
        """Return the result. Raises TimeoutError if none comes."""

    def stream(self, query: ContextQuery, *, token: str | None) -> AsyncGenerator[StageTime | ContextResult, None]:
        """Yield each step when it is known to have ended, and the result last. Raises TimeoutError if none comes."""

    async def ask_documents(self, query: DocumentQuery, *, token: str | None) -> DocumentReport:
        """Return the report. Raises TimeoutError if none comes."""

    async def judge(self, judgement: Judgement) -> None:
        """Store a judgement. Raises Rejected for one that breaks a rule."""


def retry_after_s(result: ContextResult) -> int | None:
    """Return in how many seconds to ask again, if a query was beyond the limit of its tenant for this minute."""
    if not any(notice.stage == LIMIT for notice in result.notices):
        return None
    return 60 - result.answered_at // 1000 % 60


def why_refused(result: ContextResult) -> str | None:
    """Return why a query was not answered, as REJECTED and EXPIRED results say it; None: it was."""
    if result.status not in {ResultStatus.REJECTED, ResultStatus.EXPIRED}:
        return None
    return "; ".join(notice.message for notice in result.notices) or "the query was refused"
