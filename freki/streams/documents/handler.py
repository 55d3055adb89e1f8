"""Handle document queries: publish one report for each."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from freki.operators.errors import InvalidQuery
from freki.operators.identify import root_id
from freki.operators.validate_query import MAX_DEADLINE_MS, validate_document_query
from freki.schemas import (
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    QueryId,
    ReportStatus,
    TenantId,
    Timestamp,
    may_read,
)
from freki.schemas.document_report import NOT_ADMITTED, UNREADABLE, WITHHELD
from freki.schemas.errors import Misconfigured
from freki.schemas.identity import Refusal
from freki.schemas.index import Exclusions, Root, Selection
from freki.schemas.names import record, shown_time
from freki.streams.audit.events import refused, reported
from freki.streams.audit.log import AuditLog, AuditUnwritable
from freki.streams.deliver.answered import Answered
from freki.streams.deliver.dead_letter_queue import OnDeadLetter
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.outbox import Sink
from freki.streams.deliver.replies import SendsAnswers
from freki.streams.documents.history import DocumentRecords, history_of
from freki.streams.documents.listing import listed, page_of
from freki.streams.documents.view import view_of
from freki.streams.messages import Received
from freki.streams.observe.tracing import attached
from freki.streams.ports import DocumentIndex

LIMIT = 50
"""Most items of a report unless the query says otherwise."""
DEADLINE_MS = 30_000
"""Time for a report unless the query says otherwise, in milliseconds."""
HISTORIES = 1
"""Maximum histories that a worker makes at a time: each reads whole topics beside the queries that it answers."""

Admit = Callable[[Received[DocumentQuery]], Awaitable[Received[DocumentQuery] | Refusal]]
"""Returns a query in the name of who asks, or its refusal."""
Build = Callable[[int], DocumentReport]
"""Returns a report with at most so many items; the others are for the next page."""

_log = structlog.get_logger(__name__)


@record
class ReportRules:
    """What reports depend on besides the query."""

    generation: str
    current: frozenset[str]
    """Fingerprints of revisions made by the settings in use."""
    max_bytes: int
    """Maximum length of an encoded report, in bytes."""
    reply_topics: Sequence[str] = ()


class DocumentHandler:
    """Publishes a report for each document query, also for one that breaks a rule."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        index: DocumentIndex,
        records: DocumentRecords,
        *,
        rules: ReportRules,
        replies: SendsAnswers[DocumentReport],
        encode: Callable[[DocumentReport], bytes],
        now: Callable[[], Timestamp],
        admit: Admit | None = None,
        audit: AuditLog | None = None,
        left_out: Callable[[TenantId], Exclusions] = lambda _: Exclusions(),
    ) -> None:
        """Create a handler.

        admit: None: queries are believed; audit: None: nothing is recorded. left_out: returns what objections of a
        tenant leave out: it is as if it did not exist.
        """
        self._left_out = left_out
        self._index = index
        self._records = records
        self._rules = rules
        self._replies = replies
        self._encode = encode
        self._now = now
        self._admit = admit
        self._audit = audit
        self._answered = Answered()
        self._histories = asyncio.Semaphore(HISTORIES)
        self._kinds: Mapping[DocumentQueryKind, Callable[[DocumentQuery], Awaitable[Build]]] = {
            DocumentQueryKind.LIST: self._list,
            DocumentQueryKind.SHOW: self._show,
            DocumentQueryKind.HISTORY: self._history,
        }

    def take_over(self, reply_topics: Sequence[str]) -> None:
        """Let later queries name these topics for their answers."""
        self._rules = replace(self._rules, reply_topics=reply_topics)

    async def handle(self, batch: Sequence[Received[DocumentQuery]]) -> None:
        """Answer a batch; after an error it may come again, and what was answered of it is left out."""
        with self._answered.left(batch) as left:
            for asked in left:
                await self._answer(asked)
                self._answered.add(asked)

    async def _answer(self, asked: Received[DocumentQuery]) -> None:
        received = await self._admitted(asked)
        if received is None:
            return
        query = received.value
        try:
            validate_document_query(query, reply_topics=self._rules.reply_topics, verified=self._admit is not None)
        except InvalidQuery as error:
            await self._record_refusal(received, "validate: REJECTED", None)
            await self._replies.send(received, self._without(query, ReportStatus.REJECTED, str(error)), to=None)
        else:
            report = await self._audited(received, await self.report(query))
            await self._replies.send(received, report, to=query.reply_to)

    async def _admitted(self, received: Received[DocumentQuery]) -> Received[DocumentQuery] | None:
        """Return a query in the name of who asks; None if its token does not allow it and it was refused."""
        if self._admit is None:
            return received
        judged = await self._admit(received)
        if isinstance(judged, Received):
            return judged
        with attached(received.trace):
            _log.info("document query refused", query_id=judged.query_id, reason=judged.reason)
        await self._record_refusal(received, judged.reason, judged)
        message = f"{NOT_ADMITTED}{judged.reason.message}"
        await self._replies.send(received, self._without(received.value, ReportStatus.REJECTED, message), to=None)
        return None

    async def _record_refusal(self, received: Received[DocumentQuery], reason: str, refusal: Refusal | None) -> None:
        if self._audit is not None:
            # Refused all the same where it cannot be written, which the log of the worker and a metric say.
            with suppress(AuditUnwritable):
                await self._audit.record(refused(self._audit, received, reason, refusal))

    async def _audited(self, received: Received[DocumentQuery], report: DocumentReport) -> DocumentReport:
        """Return a report once it is in the audit log; what says that it is withheld where that cannot be written."""
        if self._audit is None:
            return report
        try:
            await self._audit.record(reported(self._audit, received, report))
        except AuditUnwritable:
            return self._without(received.value, ReportStatus.EXPIRED, WITHHELD)
        return report

    async def report(self, query: DocumentQuery) -> DocumentReport:
        """Return the report on a valid query."""
        deadline_ms = query.deadline_ms or DEADLINE_MS
        # No more than was asked for, also where the clock of who asks is ahead.
        left_ms = min(query.asked_at + deadline_ms - self._now(), deadline_ms)
        if left_ms <= 0:
            return self._without(query, ReportStatus.EXPIRED, "it waited longer than its deadline; ask again")
        limit = asyncio.timeout(left_ms / 1000)
        try:
            async with limit:
                build = await self._kinds[query.kind](query)
        except TimeoutError:
            if not limit.expired():
                raise
            return self._without(
                query,
                ReportStatus.EXPIRED,
                f"deadline_ms: {deadline_ms} is too little for this; allow up to {MAX_DEADLINE_MS}, or give a prefix",
            )
        except InvalidQuery as error:
            return self._without(query, ReportStatus.REJECTED, str(error))
        except Misconfigured as error:
            # Answered, because a query must not stop a worker that answers others.
            _log.warning("a report cannot be made", error=str(error))
            return self._without(query, ReportStatus.EXPIRED, UNREADABLE)
        return self._fitting(query, build)

    def _fitting(self, query: DocumentQuery, build: Build) -> DocumentReport:
        """Return the longest report by halving that fits into a record."""
        limit = query.limit or LIMIT
        while len(self._encode(report := build(limit))) > self._rules.max_bytes:
            if limit == 1:
                return self._without(
                    query,
                    ReportStatus.REJECTED,
                    f"one item takes more than {self._rules.max_bytes} bytes; raise FREKI_KAFKA__MAX_MESSAGE_BYTES",
                )
            limit //= 2
        return report

    async def _list(self, query: DocumentQuery) -> Build:
        selection = Selection(
            tenant=query.tenant,
            asker=query.principals,
            prefix=query.prefix,
            source=query.source,
            language=query.language,
            principals=query.readers,
            attributes=query.attributes,
            deleted=query.deleted,
            left_out=self._left_out(query.tenant),
            not_made_by=self._rules.current if query.made_otherwise else frozenset(),
        )
        page = await page_of(self._index, selection, after=query.cursor or "", limit=query.limit or LIMIT)

        def build(limit: int) -> DocumentReport:
            roots = page.roots[:limit]
            return replace(
                self._without(query, ReportStatus.FOUND),
                total=page.total,
                documents=tuple(listed(root, self._rules.current) for root in roots),
                next=roots[-1].document_id if len(roots) < page.left else None,
            )

        return build

    async def _show(self, query: DocumentQuery) -> Build:
        root = await self._readable(query)
        if root is None:
            return self._not_found(query)
        view = await view_of(self._index, root, first=_place(query), limit=query.limit or LIMIT)
        if not self._may_show(query, view.root):
            return self._not_found(query)

        def build(limit: int) -> DocumentReport:
            chunks, end = view.chunks[:limit], view.places[limit] if limit < len(view.chunks) else view.end
            return replace(
                self._without(query, ReportStatus.FOUND),
                total=view.total,
                documents=(listed(view.root, self._rules.current),),
                chunks=chunks,
                counts=view.counts,
                next=str(end) if end < view.total else None,
            )

        return build

    async def _history(self, query: DocumentQuery) -> Build:
        root = await self._readable(query)
        if root is None:
            return self._not_found(query)
        async with self._histories:
            try:
                events = await history_of(self._records, root.tenant, root.document_id)
            except Misconfigured as error:
                # Answered, because a query must not stop a worker that lacks a right.
                _log.warning("a history cannot be read", error=str(error))
                raise InvalidQuery(f"kind: the worker that answers cannot read histories: {error}") from error
        first = _place(query)

        def build(limit: int) -> DocumentReport:
            end = first + limit
            return replace(
                self._without(query, ReportStatus.FOUND),
                total=len(events),
                events=tuple(events[first:end]),
                next=str(end) if end < len(events) else None,
            )

        return build

    async def _readable(self, query: DocumentQuery) -> Root | None:
        """Return the document that is asked about; None if there is none that the asker may read."""
        assert query.document_id is not None  # noqa: S101 - `validate_document_query` saw it
        key = root_id(query.tenant, query.document_id)
        root = (await self._index.roots([key])).get(key)
        return root if root is not None and self._may_show(query, root) else None

    def _may_show(self, query: DocumentQuery, root: Root) -> bool:
        left_out = self._left_out(query.tenant).has(root.root_id, root.attributes)
        return not left_out and may_read(query.principals, root.principals)

    def _not_found(self, query: DocumentQuery) -> Build:
        return lambda _: self._without(query, ReportStatus.NOT_FOUND)

    def _without(self, query: DocumentQuery, status: ReportStatus, message: str = "") -> DocumentReport:
        """Return a report without items."""
        return DocumentReport(
            query_id=query.query_id,
            tenant=query.tenant,
            status=status,
            message=message,
            generation=self._rules.generation,
            asked_at=shown_time(query.asked_at),
            answered_at=self._now(),
            total=0,
            next=None,
        )


def reject_with_report(reports: Sink[DocumentReport]) -> OnDeadLetter[DocumentQuery]:
    """Return a callback that reports to who asked that a query became a dead letter."""

    async def reject(letter: DeadLetter, received: Received[DocumentQuery] | None) -> None:
        query = None if received is None else received.value
        report = DocumentReport(
            query_id=QueryId((letter.key or b"").decode(errors="replace")),
            tenant=TenantId("") if query is None else query.tenant,
            status=ReportStatus.REJECTED,
            message=f"{letter.stage}: {letter.message}",
            generation="",
            asked_at=letter.timestamp if query is None else shown_time(query.asked_at),
            answered_at=letter.died_at,
            total=0,
            next=None,
        )
        trace = None if received is None else received.trace
        await reports.send(reports.record(report, key=letter.key, trace=trace))

    return reject


def _place(query: DocumentQuery) -> int:
    return int(query.cursor or 0)
