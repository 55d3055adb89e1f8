"""Handle batches of queries: publish one result for each."""

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

import structlog
from opentelemetry.context import Context, get_current
from opentelemetry.trace import get_current_span

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import validate_query
from freki.schemas import ContextQuery, ContextResult, Notice, NoticeKind, QueryId, ResultStatus, TenantId
from freki.schemas.errors import Rejected
from freki.schemas.identity import Refusal
from freki.schemas.limits import LIMIT
from freki.streams.audit.events import asked, refused
from freki.streams.audit.log import AuditLog, AuditUnwritable
from freki.streams.deliver.answered import Answered
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.replies import SendsAnswers
from freki.streams.limits.queries import QueryLimits
from freki.streams.messages import Received
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import attached
from freki.streams.retrieve.authenticate import STEP, Authenticator
from freki.streams.retrieve.cache.caching import CachingRetriever
from freki.streams.retrieve.candidates import Retrieval
from freki.streams.retrieve.losses import losses_of
from freki.streams.retrieve.retriever import OnStep, Retriever
from freki.streams.retrieve.trace import QueryTrace

MAX_PATIENT = 128
"""Maximum number of queries that wait for versions of documents; more are refused, since they would hold up others."""
CROWDED = Notice(
    stage="wait",
    kind=NoticeKind.SKIPPED,
    message="too many queries wait for versions of documents already; ask again later, or without `at_least`",
)

TOO_LARGE = Notice(
    stage="reply",
    kind=NoticeKind.REJECTED,
    message="the answer does not fit a record: lower top_k, neighbours, context_tokens or expand_chunks",
)
FAILED = Notice(
    stage="retrieve",
    kind=NoticeKind.DEGRADED,
    message="answering failed: `freki dead-letters list` and the log of the worker say why",
)
UNAUDITED = Notice(
    stage="audit",
    kind=NoticeKind.SKIPPED,
    message="the answer is withheld, because the audit log cannot be written; ask again later",
)

_log = structlog.get_logger(__name__)


class QueryHandler:
    """Publishes a result for each query, also for one that breaks a rule."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        retriever: Retriever | CachingRetriever,
        *,
        replies: SendsAnswers[ContextResult],
        reply_topics: Sequence[str],
        max_query_chars: int,
        traces: QueryTrace,
        meters: Meters,
        authenticator: Authenticator | None = None,
        audit: AuditLog | None = None,
        limits: QueryLimits | None = None,
        log_candidates: bool = False,
        on_step: OnStep | None = None,
        encrypts_names: bool = False,
    ) -> None:
        """Create a handler.

        authenticator: None: queries are believed; audit: None: nothing is recorded; limits: of tenants, None: there are
        none; log_candidates: whether each candidate that is found and not shown is logged; encrypts_names: whether
        the store refuses conditions on the beginning of a name, which would fail the search of a whole batch.
        """
        self._retriever = retriever
        self._replies = replies
        self._reply_topics = frozenset(reply_topics)
        self._max_query_chars = max_query_chars
        self._traces = traces
        self._meters = meters
        self._authenticator = authenticator
        self._audit = audit
        self._limits = limits
        self._log_candidates = log_candidates
        self._on_step = on_step
        self._encrypts_names = encrypts_names
        self._answered = Answered()
        self._counted = Answered()
        """What counts for the limit of its tenant already."""
        self._patient: dict[asyncio.Task[None], tuple[TenantId, str]] = {}
        """Queries that wait for versions, with their tenants and users."""

    def take_over(self, *, reply_topics: Sequence[str], max_query_chars: int) -> None:
        """Judge later queries by these limits."""
        self._reply_topics = frozenset(reply_topics)
        self._max_query_chars = max_query_chars

    @property
    def is_idle(self) -> bool:
        """Whether no query waits for versions of documents beside the batches."""
        return not self._patient

    @property
    def _keeps_apart(self) -> bool:
        """Whether each query has the topic of its tenant as `reply_to` once it is admitted."""
        return self._authenticator is not None and self._authenticator.keeps_apart

    async def handle(self, batch: Sequence[Received[ContextQuery]]) -> None:
        """Answer a batch; queries with `at_least` are answered beside it, since they may take all of their time.

        Their offsets are committed before they are answered: after a crash their deadline is over anyway, and whoever
        sent them asks again. After an error a batch may come again, and what was answered of it is left out.
        """
        with self._answered.left(batch) as left, self._counted.left(batch):
            await self._handle(left)

    async def _handle(self, batch: Sequence[Received[ContextQuery]]) -> None:
        prompt: list[Received[ContextQuery]] = []
        for received in await self._in_time(await self._allowed(await self._valid(await self._admitted(batch)))):
            if not received.value.at_least:
                prompt.append(received)
            elif self._may_wait(received.value.tenant, received.asker):
                task = asyncio.create_task(self._answer_later(received))
                self._patient[task] = (received.value.tenant, received.asker)
                self._answered.add(received)
                task.add_done_callback(self._ended)
            else:
                await self._refuse(received, CROWDED, to=received.value.reply_to)
        if prompt:
            await self._answer(prompt)

    async def give_up(self, letter: DeadLetter, received: Received[ContextQuery] | None) -> None:
        """Tell who asked that a query became a dead letter; its key says who where it could not be decoded."""
        if received is not None:
            for admitted in await self._admitted([received]):
                await self._fail(admitted)
        elif letter.key:
            notice = Notice(stage="decode", kind=NoticeKind.REJECTED, message=letter.message)
            await self._send_refusal(_undecoded(letter, letter.key), notice, to=None)

    def _may_wait(self, tenant: TenantId, user: str) -> bool:
        """Return whether one more query of a tenant may wait: it leaves as many places free as the tenant has.

        So one tenant has half of them at most, two a third each, and another one always finds a free place. Users share
        the places of their tenant the same way.
        """
        others = sum(each != tenant for each, _ in self._patient.values())
        most = (MAX_PATIENT - others + 1) // 2
        own = len(self._patient) - others
        of_user = sum(each == (tenant, user) for each in self._patient.values())
        return own < most and (not user or of_user < most - own)

    async def _answer_later(self, received: Received[ContextQuery]) -> None:
        """Answer a query whose offset is committed: it cannot become a dead letter any more."""
        try:
            await self._answer([received])
        except Exception:  # noqa: BLE001 - told to who asked
            with attached(received.trace):
                _log.exception("a waiting query failed", query_id=received.value.query_id)
            await self._fail(received)

    async def _fail(self, received: Received[ContextQuery]) -> None:
        reply_to = received.value.reply_to
        is_allowed = reply_to in self._topics_allowed(received.value)
        await self._refuse(received, FAILED, to=reply_to if is_allowed else None)

    def _topics_allowed(self, query: ContextQuery) -> Collection[str]:
        """Return the topics that the answer to an admitted query may go to, besides that of all answers."""
        return {query.reply_to or ""} if self._keeps_apart else self._reply_topics

    async def _admitted(self, batch: Sequence[Received[ContextQuery]]) -> Sequence[Received[ContextQuery]]:
        """Refuse queries whose token does not allow them; return the others in the name of who asks."""
        authenticator = self._authenticator
        if authenticator is None:
            return batch
        admitted = []
        for received in batch:
            judged = await authenticator.admit(received)
            if isinstance(judged, Received):
                admitted.append(judged)
                continue
            with attached(received.trace):
                _log.info("query refused", query_id=judged.query_id, reason=judged.reason)
            notice = Notice(
                stage=STEP, kind=NoticeKind.REJECTED, message=f"the query is refused: {judged.reason.message}"
            )
            # To the topic of all: the sender may listen there only, and a refusal tells nothing.
            await self._refuse(received, notice, to=None, refusal=judged)
        return admitted

    async def _valid(self, batch: Sequence[Received[ContextQuery]]) -> list[Received[ContextQuery]]:
        """Refuse queries that break a rule; return the others."""
        valid = []
        for received in batch:
            try:
                validate_query(
                    received.value,
                    max_characters=self._max_query_chars,
                    reply_topics=self._topics_allowed(received.value),
                    encrypts_names=self._encrypts_names,
                    verified=self._authenticator is not None,
                )
            except InvalidQuery as error:
                notice = Notice(stage="validate", kind=NoticeKind.REJECTED, message=str(error))
                await self._refuse(received, notice, to=received.value.reply_to if self._keeps_apart else None)
            else:
                valid.append(received)
        return valid

    async def _allowed(self, batch: Sequence[Received[ContextQuery]]) -> Sequence[Received[ContextQuery]]:
        """Refuse queries beyond the limit of their tenant; return the others, which count."""
        limits = self._limits
        if limits is None:
            return batch
        allowed = []
        for received in batch:
            is_counted = self._counted.has(received)
            reason = None if is_counted else limits.refusal(received.value.tenant, received.timestamp)
            if reason is None:
                self._counted.add(received)
                allowed.append(received)
            else:
                notice = Notice(stage=LIMIT, kind=NoticeKind.SKIPPED, message=reason)
                await self._refuse(received, notice, to=received.value.reply_to)
        limits.tell()
        return allowed

    async def _in_time(self, batch: Sequence[Received[ContextQuery]]) -> list[Received[ContextQuery]]:
        """Refuse queries that there is no time for; return the others."""
        reasons = self._retriever.refusals([received.value for received in batch])
        for received, reason in zip(batch, reasons, strict=True):
            if reason is not None:
                notice = Notice(stage="admit", kind=NoticeKind.SKIPPED, message=reason)
                await self._refuse(received, notice, to=received.value.reply_to)
        return [received for received, reason in zip(batch, reasons, strict=True) if reason is None]

    async def _refuse(
        self, received: Received[ContextQuery], notice: Notice, *, to: str | None, refusal: Refusal | None = None
    ) -> None:
        if self._audit is not None:
            reason = f"{notice.stage}: {notice.kind}" if refusal is None else refusal.reason
            # Refused all the same where it cannot be written, which the log of the worker and a metric say.
            with suppress(AuditUnwritable):
                await self._audit.record(refused(self._audit, received, reason, refusal))
        await self._send_refusal(received, notice, to=to)

    async def _send_refusal(self, received: Received[ContextQuery], notice: Notice, *, to: str | None) -> None:
        result = self._retriever.refusal(received.value, notice, trace_id=_trace_id(received.trace))
        self._traces.refuse(received.trace, received.value, result)
        await self._replies.send(received, result, to=to, private=self._keeps_apart)
        self._answered.add(received)
        # A tenant at its limit, which has a metric of its own, is no sign that answers come too late.
        if notice.stage != LIMIT:
            self._meters.count_result(result)

    async def _answer(self, batch: Sequence[Received[ContextQuery]]) -> None:
        answers = self._retriever.answer(
            [(received.value, _trace_id(received.trace)) for received in batch], on_step=self._on_step
        )
        async with aclosing(answers):
            async for place, result, retrieval in answers:
                received = batch[place]
                if not await self._audited(received, result):
                    await self._send_refusal(received, UNAUDITED, to=received.value.reply_to)
                    continue
                started_s = time.perf_counter()
                try:
                    is_taken = await self._replies.send(
                        received, result, to=received.value.reply_to, private=self._keeps_apart
                    )
                except Rejected as error:
                    # The others of the batch must not be answered again for it.
                    _log.warning("an answer cannot be sent", query_id=result.query_id, error=str(error))
                    await self._send_refusal(received, TOO_LARGE, to=received.value.reply_to)
                    continue
                self._answered.add(received)
                # A topic that is missing says nothing of the time that other answers take to leave.
                if is_taken:
                    self._retriever.learn_sending(time.perf_counter() - started_s)
                # Not before: it takes a millisecond, and more where traces have content.
                self._report(received.trace, retrieval, result)
                self._meters.count_result(result)
                self._meters.count_unranked(retrieval.query.log.unranked)

    async def _audited(self, received: Received[ContextQuery], result: ContextResult) -> bool:
        """Return whether an answer may be given: it is in the audit log, or there is none."""
        if self._audit is None:
            return True
        try:
            await self._audit.record(asked(self._audit, received, result))
        except AuditUnwritable:
            return False
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._patient.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "a waiting query failed", "exception": error})

    def _report(self, trace: Context, retrieval: Retrieval, result: ContextResult) -> None:
        self._traces.report(trace, retrieval, result)
        with attached(trace):
            for (step, reason), chunk_ids in retrieval.hits.history.dropped.items():
                _log.info("chunks dropped", query_id=result.query_id, step=step, reason=reason, chunks=list(chunk_ids))
            if self._log_candidates:
                losses = losses_of(retrieval).items()
                _log.info(
                    "candidates not shown",
                    query_id=result.query_id,
                    hits=[each.chunk_id for each in retrieval.hits.found],
                    left_out=[{"step": step, "reason": reason, "chunks": list(ids)} for (step, reason), ids in losses],
                )


def noted(result: ContextResult, message: str) -> ContextResult:
    """Return a result with a notice about its reply topic."""
    notice = Notice(stage="reply", kind=NoticeKind.SKIPPED, message=message)
    return replace(result, notices=(*result.notices, notice))


def without_content(result: ContextResult, message: str) -> ContextResult:
    """Return what all may read of a result, REJECTED with a notice about its reply topic."""
    return ContextResult(
        query_id=result.query_id,
        tenant=result.tenant,
        status=ResultStatus.REJECTED,
        hits=(),
        context="",
        analysis=None,
        variants=(),
        reranker="none",
        stages=(),
        notices=(Notice(stage="reply", kind=NoticeKind.SKIPPED, message=message),),
        advice=(),
        freshness=result.freshness,
        generation=result.generation,
        asked_at=result.asked_at,
        answered_at=result.answered_at,
        trace_id=result.trace_id,
    )


def _undecoded(letter: DeadLetter, key: bytes) -> Received[ContextQuery]:
    """Return what is known of a query that could not be decoded."""
    query = ContextQuery(
        query_id=QueryId(key.decode(errors="replace")), tenant=TenantId(""), text="", asked_at=letter.timestamp
    )
    return Received(
        value=query,
        key=key,
        headers=letter.headers,
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        timestamp=letter.timestamp,
        trace=get_current(),
    )


def _trace_id(trace: Context) -> str:
    span = get_current_span(trace).get_span_context()
    return f"{span.trace_id:032x}" if span.is_valid else ""
