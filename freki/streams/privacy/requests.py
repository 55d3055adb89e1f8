"""Handle requests to erase documents: publish one signed report for each, which the topic keeps.

A worker first publishes what it is about to erase (BEGUN): after its death the next one goes on from there, since
nothing else remembers the attributes of documents that are deleted. A request that is done is not done again.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import structlog

from freki.operators.audit_chain import Event
from freki.operators.errors import InvalidRequest
from freki.operators.validate_case import validate_erasure_request
from freki.schemas import (
    OF_RETENTION,
    AuditKind,
    Coverage,
    ErasureReport,
    ErasureRequest,
    ErasureStatus,
    Hold,
    TenantId,
    Timestamp,
)
from freki.schemas.errors import InfraError, Misconfigured
from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.names import key_of_texts, record, texts_of_key
from freki.streams.audit.log import AuditLog, AuditUnwritable
from freki.streams.deliver.dead_letter_queue import OnDeadLetter
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.outbox import Sink
from freki.streams.deliver.replies import Replies, with_message
from freki.streams.messages import TOKEN_HEADER, Received, header
from freki.streams.ports.erasure import HoldBook
from freki.streams.privacy.erasure import Erasure, ErasureOutcome, ErasurePlan, fits_record

ErasureFor = Callable[[str, str], Erasure]
"""Returns an erasure, given who asked, and the id of the request."""
Identify = Callable[[bytes], Awaitable[Identity | RefusalReason]]
"""Returns who asks by a token, or why it is refused."""
_EXPIRED = frozenset({RefusalReason.EXPIRED, RefusalReason.TOO_OLD})
_KEY_MARK = 16
"""Characters by which a hash says of which key it is."""
_REFUSED = "the request is refused: its token is not accepted, or may not request erasures of this tenant"

_log = structlog.get_logger(__name__)


@record
class RequestRules:
    """Who may request what."""

    requesters: frozenset[str]
    """Users and groups of tokens who may request erasures, as `tenant/group`."""
    reply_topics: Sequence[str] = ()
    max_report_bytes: int
    """Maximum size of a report, which is a record."""


class ReportBook(Protocol):
    """The last report of each request."""

    async def of(self, tenant: TenantId, request_id: str) -> ErasureReport | None:
        """Return the last report on a request; None where there is none."""

    async def waiting(self) -> Sequence[ErasureReport]:
        """Return the reports on requests of which documents are held."""


class ErasureRequests:
    """Erases what is requested, by those who may."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        erasure_for: ErasureFor,
        *,
        rules: RequestRules,
        reports: ReportBook,
        holds: HoldBook,
        sink: Sink[ErasureReport],
        hash_text: Callable[[str], str],
        now: Callable[[], Timestamp],
        identify: Identify | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """Create a handler.

        hash_text: returns a keyed hash; identify: None: requests are believed, and rights of the topic say who may
        write them.
        """
        self._erasure_for = erasure_for
        self._rules = rules
        self._reports = reports
        self._holds = holds
        self._sink = sink
        self._replies = Replies(sink, noted=with_message)
        self._hash_text = hash_text
        self._now = now
        self._identify = identify
        self._audit = audit
        self._looked: dict[tuple[TenantId, str], tuple[Timestamp, Sequence[Hold]]] = {}
        """Of each request that waits: its report when it was looked at last, by time, and the holds that kept it."""

    async def handle(self, batch: Sequence[Received[ErasureRequest]]) -> None:
        """Do requests, one after the other. Raises InvalidRequest, and Unavailable while deletions get no receipt."""
        for received in batch:
            request = received.value
            by = await self._requester(received)
            if by is None:
                # Under the key of the record: it must not take the place of the report on a request of the same id.
                refusal = _report(request, ErasureStatus.REJECTED, at=self._now(), message=_REFUSED)
                await self._replies.send(replace(received, key=_refusal_key(received.key)), refusal, to=None)
                continue
            validate_erasure_request(request, key=received.key, reply_topics=self._rules.reply_topics)
            report = await self._done(request, by)
            await self._keep(report)
            if request.reply_to is not None:
                await self._replies.send(received, report, to=request.reply_to)

    async def resume(self) -> None:
        """Erase the documents of earlier requests whose holds have ended."""
        waiting = {
            (report.tenant, report.request_id): report
            for report in await self._reports.waiting()
            # Retention goes on with its own: the rules decide on what was not deleted before it was held.
            if not report.request_id.startswith(OF_RETENTION)
        }
        self._looked = {case: looked for case, looked in self._looked.items() if case in waiting}
        for case, report in waiting.items():
            try:
                await self._look(case, report)
            except Misconfigured:
                raise
            except InfraError as error:
                # The others do not wait for it.
                _log.warning("a request for an erasure waits for another look", request_id=case[1], error=str(error))

    async def _look(self, case: tuple[TenantId, str], report: ErasureReport) -> None:
        """Erase what holds no longer keep of an earlier request, and keep a report of it."""
        holds = await self._holds.of(report.tenant)
        # To look whether a document is held reads a whole topic: only where holds or the report have changed.
        if self._looked.get(case) == (report.at, holds):
            return
        after, erased = await self._go_on(report)
        if (after.held, after.reports) != (report.held, report.reports):
            await self._keep(after)
            report = after
        names = {hold.name for hold in holds}
        if all(names.intersection(by) for by in erased.held.values()):
            self._looked[case] = report.at, holds
        else:
            # A hold that came meanwhile may be gone again, and nobody would notice.
            self._looked.pop(case, None)

    async def _keep(self, report: ErasureReport) -> None:
        """Put a report on its topic, in the place of the one before."""
        await self._sink.send(self._sink.record(report, key=report_key(report.tenant, report.request_id)))

    def _check_size(self, begun: ErasureReport) -> None:
        """Raise InvalidRequest where the report might become larger than a record: nobody would keep the proof."""
        if not fits_record(begun, size=len(self._sink.encode(begun)), most=self._rules.max_report_bytes):
            raise InvalidRequest(
                f"covers: the report on {len(begun.documents)} documents would not fit a record; name them in several "
                "requests, or erase them by `freki erase`"
            )

    async def _done(self, request: ErasureRequest, by: str) -> ErasureReport:
        before = await self._reports.of(request.tenant, request.request_id)
        if before is None:
            begun = await self._planned(request, by)
            # A worker that was paused meanwhile has lost its partition, and another one has taken the request.
            before = await self._reports.of(request.tenant, request.request_id)
            if before is None:
                before = begun
                await self._keep(before)
        if self._is_of_other(before, request):
            raise InvalidRequest(f"request_id: {request.request_id!r} is of an earlier request; give each one its own")
        is_open = before.status is ErasureStatus.BEGUN or before.held
        return (await self._go_on(before))[0] if is_open else before

    async def _planned(self, request: ErasureRequest, by: str) -> ErasureReport:
        """Return the report that a request is begun. Raises InvalidRequest for one on too many documents."""
        plan = await self._erasure_for(by, request.request_id).plan(request.tenant, request.covers)
        begun = _report(request, ErasureStatus.BEGUN, at=self._now(), by=by, message=plan.undecided)
        begun = replace(begun, documents=tuple(plan.documents), attributes_hash=self._attributes_hash(request))
        self._check_size(begun)
        return begun

    def _is_of_other(self, report: ErasureReport, request: ErasureRequest) -> bool:
        """Return whether a report is of a request for other documents."""
        before, asked = report.attributes_hash, self._attributes_hash(request)
        # Hashes under different keys say nothing, and the key may have changed since.
        is_comparable = before[:_KEY_MARK] == asked[:_KEY_MARK]
        return report.covers != _without_values(request.covers) or (is_comparable and before != asked)

    def _attributes_hash(self, request: ErasureRequest) -> str:
        attributes = sorted(request.covers.attributes.items())
        if not attributes:
            return ""
        # With the request, so that reports do not show which of them are about the same person.
        text = json.dumps([request.tenant, request.request_id, attributes])
        return self._hash_text("")[:_KEY_MARK] + self._hash_text(text)

    async def _go_on(self, report: ErasureReport) -> tuple[ErasureReport, ErasureOutcome]:
        """Erase what a request that was begun has not erased yet; return its report after that, and how it ended."""
        held = set(report.held)
        planned = [each for each in report.documents if not held or each.document_id in held]
        erasure = self._erasure_for(report.requested_by, report.request_id)
        about = {"request_id": report.request_id, "requested_by": report.requested_by, "reason": report.reason}
        plan = ErasurePlan(tenant=report.tenant, documents=planned, undecided=report.message)
        erased = await erasure.run(plan, about=about)
        # A worker that was paused has lost its partition: another one has done the request, and its proof stays.
        report = await self._reports.of(report.tenant, report.request_id) or report
        after = replace(
            report,
            # What was left of other documents is not looked for again.
            status=report.status if report.status is ErasureStatus.INCOMPLETE else erased.status,
            message=report.message or ("" if planned else "no document is covered"),
            held=tuple(sorted(erased.held)),
            reports=(*report.reports, *(() if erased.report is None else (erased.report,))),
            at=self._now(),
        )
        return after, erased

    async def _requester(self, received: Received[ErasureRequest]) -> str | None:
        """Return who requests; None if they may not, which is recorded."""
        if self._identify is None:
            return ""
        token = header(received.headers, TOKEN_HEADER)
        identity = await self._identify(token) if token else RefusalReason.NO_TOKEN
        if isinstance(identity, RefusalReason):
            if identity in _EXPIRED and (before := await self._begun(received.value)) is not None:
                return before.requested_by
            await self._refused(received.value, identity, None)
            return None
        reason = None
        if identity.tenant != received.value.tenant:
            reason = RefusalReason.TENANT
        elif self._rules.requesters.isdisjoint(identity.names):
            reason = RefusalReason.PRINCIPALS
        if reason is None:
            return identity.subject
        await self._refused(received.value, reason, identity)
        return None

    async def _begun(self, request: ErasureRequest) -> ErasureReport | None:
        """Return the report of this request if it was accepted, and broke off: its token may have expired since."""
        before = await self._reports.of(request.tenant, request.request_id)
        is_same = before is not None and before.status is ErasureStatus.BEGUN and not self._is_of_other(before, request)
        return before if is_same else None

    async def _refused(self, request: ErasureRequest, reason: RefusalReason, identity: Identity | None) -> None:
        _log.warning("a request for an erasure is refused", request_id=request.request_id, reason=reason)
        if self._audit is not None:
            tenant, asker = (TenantId(""), "") if identity is None else (identity.tenant, identity.subject)
            # Refused all the same where it cannot be written, which the log of the worker and a metric say.
            with suppress(AuditUnwritable):
                await self._audit.record(
                    Event(
                        kind=AuditKind.REFUSED,
                        tenant=tenant,
                        asker=asker,
                        subject=request.request_id,
                        reason=f"erasure: {reason}",
                    )
                )


def report_key(tenant: TenantId, request_id: str) -> bytes:
    """Return the key of the reports on a request."""
    return key_of_texts(tenant, request_id)


def _refusal_key(key: bytes) -> bytes:
    """Return the key under which it is reported that a request was not done: its own, unless reports have such keys.

    Whoever may write a request chooses its key, and the last record of a key is all that the topic of reports keeps.
    """
    try:
        texts_of_key(key, "tenant", "request_id")
    except ValueError:
        return key
    return b"refused " + key


def reject_with_erasure_report(sink: Sink[ErasureReport]) -> OnDeadLetter[ErasureRequest]:
    """Return a callback that reports, under the key of the record, that a request became a dead letter."""

    async def reject(letter: DeadLetter, received: Received[ErasureRequest] | None) -> None:
        report = ErasureReport(
            request_id=(letter.key or b"").decode(errors="replace"),
            tenant=TenantId("") if received is None else received.value.tenant,
            status=ErasureStatus.REJECTED,
            message=f"{letter.stage}: {letter.message}",
            covers=Coverage() if received is None else _without_values(received.value.covers),
            requested_by="",
            reason="",
            at=letter.died_at,
        )
        trace = None if received is None else received.trace
        await sink.send(sink.record(report, key=_refusal_key(letter.key or b""), trace=trace))

    return reject


def _report(
    request: ErasureRequest, status: ErasureStatus, *, at: Timestamp, by: str = "", message: str = ""
) -> ErasureReport:
    return ErasureReport(
        request_id=request.request_id,
        tenant=request.tenant,
        status=status,
        message=message,
        covers=_without_values(request.covers),
        requested_by=by,
        reason=request.reason,
        at=at,
    )


def _without_values(covers: Coverage) -> Coverage:
    return replace(covers, attributes=dict.fromkeys(covers.attributes, ""))
