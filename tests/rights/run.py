"""A run: starts the stack, does what was drawn, and compares each answer with the model."""

import asyncio
import contextlib
import json
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from freki.infra.kafka import Reader
from freki.infra.settings import AuthSettings, ModelSettings, Settings
from freki.schemas import (
    EVERYONE,
    ContextQuery,
    ContextResult,
    Coverage,
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    ErasureReport,
    ErasureRequest,
    ErasureStatus,
    Hold,
    IndexOutcome,
    Objection,
    QueryId,
    ReportStatus,
    TenantId,
)
from freki.schemas.avro import Codec
from freki.schemas.names import LARGEST_INTEGER
from freki.schemas.query_options import MAX_DEADLINE_MS
from freki.streams.client import Asker, DocumentAsker, Publisher
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import TOKEN_HEADER, Outgoing
from freki.streams.privacy.current_cases import case_key
from freki.streams.privacy.requests import report_key
from freki.streams.retrieve.budget.attempts import RECHECK
from freki.streams.wire.connect import open_asker, open_document_asker, open_outbox, open_publisher
from freki.streams.wire.from_settings import topics_of, wall_clock
from freki.streams.wire.provision import apply_topics
from tests.acceptance.helpers import delete, membership_record, query, upsert
from tests.chaos.fleet import Fleet
from tests.chaos.place import local_place
from tests.issuer import AUDIENCE, ISSUER, Issuer, key_server
from tests.long_runs import watched
from tests.rights.drawing import TOPICS, Drawing, Kind, Operation
from tests.rights.forging import FORGERIES
from tests.rights.model import SECRET, TENANTS, USERS, History, Key, Model, State, all_of
from tests.unit.tiny_models import write_hub_files, write_sentence_encoder

DIM = 16
AT_ONCE = 12
START_S, ANSWER_S, DRAIN_S = 180.0, 60.0, 180.0
NOTICED_S = 1.0
"""So long after a change of groups, an objection or a hold is stored, what was before may still count."""
ERASED_S = 300.0
"""An erasure searches all topics, beside all else."""
LOOK_EVERY_S = 0.5
"""Whether all receipts are there."""
HIDDEN = 40
"""Documents that nobody may read, published to see whether anybody notices."""
USED = "used before"
OFFICER = "officer"
"""Who may request erasures."""
WORKERS = ("chunk-1", "contextualise-1", "embed-1", "retrieve-1", "retrieve-2")
ERASER = "erase-1"
EXTRA = "retrieve-3"
ENVIRONMENT = {
    "FREKI_MODELS__RERANKER": "none",
    "FREKI_MODELS__THREADS": "1",
    "FREKI_TELEMETRY__TRACE_SHARE": "1",
    "OMP_NUM_THREADS": "1",
}
_TIMES = re.compile(r'"(query_id|asked_at|answered_at|age_ms|trace_id|milliseconds|cached_ms)": [^,}]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run."""

    seed: int
    operations: int
    directory: Path
    replay_window: bool = False
    """Each token serves one query, and answers go to topics of tenants.

    Nobody may then ask about documents or request erasures.
    """


@dataclass(slots=True)
class Report:
    """What happened, and what should not have."""

    done: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    hits: int = 0
    unanswered: int = 0
    wrong: list[str] = field(default_factory=list)
    compared: int = 0
    """Answers with and without documents that their asker may not read."""
    hidden_ms: float = 0.0
    """Median time of an answer where documents fit that the asker may not read."""
    absent_ms: float = 0.0
    """The same where no document fits."""
    searched: int = 0
    """Files in which text, questions and tokens were looked for."""


class Run:
    """One run from start to end."""

    def __init__(self, options: Options, show: Callable[[str, Report], None] = lambda _doing, _report: None) -> None:
        self._options = options
        self._show = show
        self._model = Model()
        self._issuer = Issuer()
        left_out = (Kind.LIST, Kind.SHOW, Kind.REQUEST) if options.replay_window else ()
        kinds = tuple(kind for kind in Kind if kind not in left_out)
        forgeries = (*FORGERIES, *([USED] if options.replay_window else []))
        self._drawing = Drawing(options.seed, forgeries, kinds)
        self._versions: Counter[Key] = Counter()
        self._secrets: dict[Key, str] = {}
        self._locks: dict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._used: list[tuple[str, Operation]] = []
        self._tokens: list[str] = []
        self._extra = False
        self._waits: set[asyncio.Task[None]] = set()
        self._erasures: dict[bytes, asyncio.Queue[ErasureReport]] = defaultdict(asyncio.Queue)
        """What is reported on each request, by key."""
        self.report = Report(seen=self._model.seen, wrong=self._model.wrong)

    async def __call__(self) -> Report:
        """Run, and report."""
        options = self._options
        model = options.directory / "model"
        write_sentence_encoder(model, dim=DIM)
        write_hub_files(model, dim=DIM, max_tokens=512)
        async with AsyncExitStack() as opened:
            served = opened.enter_context(key_server(self._issuer))
            once: dict[str, Any] = {"replay_window_s": 300, "reply_topic": "contexts-{tenant}"}
            auth = {
                "jwks": served.url,
                "issuer": ISSUER,
                "audience": AUDIENCE,
                **(once if options.replay_window else {}),
            }
            settings = Settings(
                local=Settings().local.elsewhere(options.directory),
                models=ModelSettings(embedder=str(model), reranker=None),
                auth=AuthSettings(**auth),
            )
            place = await opened.enter_async_context(local_place(settings))
            self._settings = place.settings
            if options.replay_window:
                await apply_topics(self._settings, tenants=TENANTS)
            key_file = options.directory / "signing.pem"
            key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            key_file.touch(mode=0o600)
            key_file.write_bytes(key)
            erasure = {
                "FREKI_ERASURE__ENABLED": "true",
                "FREKI_ERASURE__KEY_FILE": str(key_file),
                "FREKI_ERASURE__LOOK_S": "1",
                "FREKI_ERASURE__REQUESTERS": json.dumps([f"{tenant}/{OFFICER}" for tenant in TENANTS]),
            }
            environment = {
                **ENVIRONMENT,
                **({} if options.replay_window else erasure),
                "FREKI_MODELS__EMBEDDER": str(model),
                "FREKI_LOCAL__STATE_DIR": str(options.directory),
                **{f"FREKI_AUTH__{name.upper()}": str(value) for name, value in auth.items()},
                **place.environment,
            }
            self._fleet = await opened.enter_async_context(Fleet(options.directory, environment, {}))
            self._publisher: Publisher = await opened.enter_async_context(open_publisher(self._settings))
            self._outbox: Outbox = (await opened.enter_async_context(open_outbox(self._settings)))[0]
            self._askers: dict[str, Asker] = {
                tenant: await opened.enter_async_context(open_asker(self._settings, tenant=tenant))
                for tenant in TENANTS
            }
            self._documents: DocumentAsker = await opened.enter_async_context(open_document_asker(self._settings))
            await opened.enter_async_context(self._listening())
            await self._happen()
        await asyncio.to_thread(self._search_files)
        return self.report

    async def _happen(self) -> None:
        for worker in (*WORKERS, *([] if self._options.replay_window else [ERASER])):
            self._fleet.add(worker)
        await self._during("starting", self._fleet.settle(START_S))
        for operation in self._drawing.first():
            await self._do(operation)
        # Else a fast run asks an index that has nothing yet.
        await self._during("first documents", self._settle())
        await self._during("operations", self._operations())
        await self._during("settling", self._settle())
        if not self._options.replay_window:
            await self._during("last lists", self._last_lists())
        await self._during("hidden documents", self._hide())
        await self._during("leaving", self._fleet.end())

    async def _during(self, doing: str, work: Coroutine[None, None, None]) -> None:
        await watched(work, lambda: self._show(doing, self.report))

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        topics = topics_of(self._settings)

        async def listen(topic: str, receive: Callable[[bytes | None, bytes], None]) -> None:
            async with Reader(self._settings.kafka, topic, start="earliest") as reader:
                async for record in reader:
                    if record.value is not None:
                        receive(record.key, record.value)

        outcome, report = Codec(IndexOutcome).decode, Codec(ErasureReport).decode
        tasks = [
            asyncio.create_task(listen(topics.outcomes.name, lambda _, value: self._model.receive(outcome(value)))),
            asyncio.create_task(
                listen(
                    topics.erasure_reports.name,
                    lambda key, value: self._erasures[key or b""].put_nowait(report(value)),
                )
            ),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _operations(self) -> None:
        free = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for operation in self._drawing.draw(self._options.operations):
                await free.acquire()
                task = group.create_task(self._do(operation))
                task.add_done_callback(lambda _: free.release())

    async def _do(self, operation: Operation) -> None:
        match operation.kind:
            case Kind.ASK:
                await self._ask(operation)
            case Kind.LIST | Kind.SHOW:
                await self._ask_about_documents(operation)
            case Kind.FORGE:
                await self._forge(operation)
            case Kind.GROUPS:
                await self._change_groups(operation)
            case Kind.WORKER:
                await self._change_workers(operation)
            case Kind.OBJECT:
                await self._object(operation)
            case Kind.REQUEST:
                await self._request_erasure(operation)
            case _:
                await self._change_document(operation)
        self.report.done[operation.kind] += 1

    # Changes.

    async def _change_document(self, operation: Operation) -> None:
        document = operation.document
        async with self._locks[document]:
            match operation.kind:
                case Kind.EDIT:
                    await self._upsert(document, f"zx{self._drawing.word()}", operation.readers)
                case Kind.RIGHTS if document in self._secrets:
                    await self._upsert(document, self._secrets[document], operation.readers)
                case Kind.DELETE:
                    await self._delete(document, self._next_version(document))
                case Kind.ERASE:
                    await self._delete(document, LARGEST_INTEGER)
                case Kind.LATE:
                    # Under a version that is not above the erasure's: this word may never be seen.
                    secret = f"zx{self._drawing.word()}"
                    self._model.owners[secret] = document
                    await self._publish(document, max(1, self._versions[document]), secret, operation.readers)

    def _next_version(self, document: Key) -> int:
        self._versions[document] += 1
        return self._versions[document]

    async def _delete(self, document: Key, version: int) -> None:
        self._secrets.pop(document, None)
        self._model.delete(document, version)
        await self._publisher.publish(delete(document.tenant, document.name, version=version))

    async def _upsert(self, document: Key, secret: str, readers: frozenset[str]) -> None:
        version = self._next_version(document)
        self._secrets[document] = secret
        self._model.publish(document, State(version, secret, readers))
        await self._publish(document, version, secret, readers)

    async def _publish(self, document: Key, version: int, secret: str, readers: frozenset[str]) -> None:
        topic = TOPICS[int(secret[-3:], 16) % len(TOPICS)]
        content = "\n\n".join(
            f"Absatz {number}: Wer {topic} beantragt, hält die Frist {secret} ein. {text}"
            for number, text in enumerate(
                ("Die Leitung entscheidet.", "Gegen den Bescheid ist Widerspruch möglich.", "Es gilt das Gesetz."), 1
            )
        )
        change = upsert(
            document.tenant,
            document.name,
            content,
            version=version,
            name=f"{topic}.txt",
            principals=tuple(sorted(readers)),
        )
        await self._publisher.publish(change)

    async def _change_groups(self, operation: Operation) -> None:
        user = operation.user
        async with self._locks[user]:
            history = self._model.groups_of(user)
            history.states.append(operation.groups)
            place = len(history.states) - 1
            await self._outbox.send(
                membership_record(self._settings, user.tenant, user.name, *sorted(operation.groups))
            )

            self._passes_soon(history, place)

    def _passes_soon(self, history: History[Any], place: int) -> None:
        async def passes() -> None:
            await asyncio.sleep(NOTICED_S)
            history.passed(place)

        task = asyncio.create_task(passes())
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)

    async def _object(self, operation: Operation) -> None:
        document = operation.document
        async with self._locks[document]:
            history = self._model.objections_to(document)
            history.states.append(not history.states[-1])
            objection = Objection(
                tenant=TenantId(document.tenant),
                name=f"objection to {document.name}",
                covers=Coverage(documents=(DocumentId(document.name),)),
                reason="Art. 21",
                recorded_by=OFFICER,
                recorded_at=wall_clock(),
            )
            await self._put(objection, stands=history.states[-1])
            self._passes_soon(history, len(history.states) - 1)

    async def _request_erasure(self, operation: Operation) -> None:
        """Have a document erased: not by a user, not while it is held, but then."""
        document, is_held = operation.document, operation.number % 2 == 0
        async with self._locks[document]:
            if document not in self._secrets:
                await self._delete(document, LARGEST_INTEGER)
                return
            history = self._model.documents[document]
            state = history.states[-1]
            if is_held:
                await self._hold(document, holds=True)
                await asyncio.sleep(NOTICED_S)
                # Else it might not be there yet.
                await self._becomes(lambda: history.newest == len(history.states) - 1)
            refused = await self._requested(document, operation.user)
            if (status := await self._status(refused, ErasureStatus.REJECTED)) is not ErasureStatus.REJECTED:
                self.report.wrong.append(f"{operation.user.name} may not erase {document.name}, and had {status}")
            if not is_held:
                self._model.delete(document, LARGEST_INTEGER)
            key = await self._requested(document, Key(document.tenant, OFFICER))
            if is_held:
                status = await self._status(key, ErasureStatus.HELD, ErasureStatus.ERASED)
                if status is not ErasureStatus.HELD or not await self._is_shown(document, state.readers):
                    self.report.wrong.append(f"{document.name} is held, but after a request to erase it {status}")
                self._model.delete(document, LARGEST_INTEGER)
                await self._hold(document, holds=False)
            self._secrets.pop(document)
            status = await self._status(key, ErasureStatus.ERASED, ErasureStatus.INCOMPLETE)
            self._model.seen[f"erasure: {'held, then ' if is_held else ''}{status}"] += 1
            if status is not ErasureStatus.ERASED:
                self.report.wrong.append(f"{document.name} was to be erased, but is {status}")
            history.passed(len(history.states) - 1)

    async def _requested(self, document: Key, by: Key) -> bytes:
        """Send a request to erase a document; give the key of its report."""
        request = ErasureRequest(
            request_id=str(uuid.uuid4()),
            tenant=TenantId(document.tenant),
            covers=Coverage(documents=(DocumentId(document.name),)),
            requested_at=wall_clock(),
        )
        key = request.request_id.encode()
        await self._outbox.send(
            Outgoing(
                topic=topics_of(self._settings).erasure_requests.name,
                key=key,
                value=Codec(ErasureRequest).encode(request),
                headers=((TOKEN_HEADER, self._token(by).encode()),),
            )
        )
        return report_key(request.tenant, request.request_id) if by.name == OFFICER else key

    async def _status(self, key: bytes, *awaited: ErasureStatus) -> ErasureStatus | None:
        """Wait until a report says one of these; None: none does in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ERASED_S):
                while (status := (await self._erasures[key].get()).status) not in awaited:
                    pass
                return status
        return None

    async def _hold(self, document: Key, *, holds: bool) -> None:
        hold = Hold(
            tenant=TenantId(document.tenant),
            name=f"hold of {document.name}",
            covers=Coverage(documents=(DocumentId(document.name),)),
            reason="4 K 1/26",
            placed_by=OFFICER,
            placed_at=wall_clock(),
        )
        await self._put(hold, stands=holds)

    async def _put(self, case: Hold | Objection, *, stands: bool) -> None:
        topics = topics_of(self._settings)
        topic = topics.holds if isinstance(case, Hold) else topics.objections
        value = Codec(type(case)).encode(case) if stands else None
        await self._outbox.send(Outgoing(topic=topic.name, key=case_key(case.tenant, case.name), value=value))

    async def _is_shown(self, document: Key, readers: frozenset[str]) -> bool:
        """Ask as a reader whether a document is there; one to which somebody objects is shown to nobody."""
        if any(self._model.objections_to(document).states):
            return True
        user = Key(document.tenant, USERS[0])
        report = await self._told(user, self._token(user, readers - {EVERYONE}), document.name)
        return report is not None and report.status is ReportStatus.FOUND

    async def _change_workers(self, operation: Operation) -> None:
        if operation.number % 3 == 0:
            workers = WORKERS if self._options.replay_window else (*WORKERS, ERASER)
            await self._fleet.kill(workers[operation.number % len(workers)])
        elif self._extra:
            self._extra = False
            await self._fleet.remove(EXTRA)
        else:
            self._extra = True
            self._fleet.add(EXTRA)

    # Questions.

    def _token(self, user: Key, claimed: frozenset[str] = frozenset()) -> str:
        token = self._issuer.token(tenant=user.tenant, sub=user.name, groups=sorted(claimed), jti=str(uuid.uuid4()))
        self._tokens.append(token)
        return token

    async def _answer(self, user: Key, asked: ContextQuery, token: str | None) -> ContextResult | None:
        try:
            return await self._askers[user.tenant].ask(asked, patience_s=ANSWER_S, token=token)
        except TimeoutError:
            self.report.unanswered += 1
            return None

    async def _ask(self, operation: Operation) -> None:
        user, token = operation.user, self._token(operation.user, operation.claimed)
        text = f"Welche Frist gilt für {operation.topic}, gefragt unter qq{self._drawing.word()}?"
        since = self._model.moment(user)
        result = await self._answer(user, _query(user, text), token)
        if result is None:
            return
        self.report.hits += len(result.hits)
        self._model.seen[f"answer: {result.status.value.lower()}"] += 1
        self._model.judge(result, user, operation.claimed | {user.name}, since)
        if self._options.replay_window:
            self._used.append((token, operation))

    async def _ask_about_documents(self, operation: Operation) -> None:
        user, since = operation.user, self._model.moment(operation.user)
        named = operation.document.name if operation.kind is Kind.SHOW else ""
        report = await self._told(user, self._token(user, operation.claimed), named)
        if report is not None:
            self._model.seen[f"report: {report.status.value.lower()}"] += 1
            self._model.judge(report, user, operation.claimed | {user.name}, since, named=named)

    async def _told(self, user: Key, token: str, named: str, cursor: str | None = None) -> DocumentReport | None:
        asked = DocumentQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=TenantId(user.tenant),
            kind=DocumentQueryKind.SHOW if named else DocumentQueryKind.LIST,
            asked_at=wall_clock(),
            document_id=DocumentId(named) if named else None,
            cursor=cursor,
        )
        try:
            return await self._documents.ask(asked, patience_s=ANSWER_S, token=token)
        except TimeoutError:
            self.report.unanswered += 1
            return None

    async def _forge(self, operation: Operation) -> None:
        user, kind = operation.user, operation.forgery
        token: str | None
        if kind == USED:
            if not self._used:
                return
            # Taken away: the same query under way twice has one answer.
            token, before = self._used.pop(operation.number % len(self._used))
            user = before.user
        else:
            claims = {"tenant": user.tenant, "sub": user.name, "jti": str(uuid.uuid4())}
            token = FORGERIES[kind](self._issuer, claims)
        asked = _query(user, f"Welche Frist gilt für {operation.topic}?", top_k=3)
        result = await self._answer(user, asked, token)
        if result is not None:
            self._model.seen[f"refused: {kind}"] += 1
            self._model.refuse(result, user, kind)

    # In the end, with nothing under way.

    async def _settle(self) -> None:
        await self._fleet.settle(START_S)
        if not await self._becomes(lambda: not self._late() and not self._waits):
            self.report.wrong.append(f"no receipt for the last change of {self._late()}")

    async def _becomes(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds; False: it does not in time."""
        until = time.monotonic() + DRAIN_S
        while not condition():
            if time.monotonic() > until:
                return False
            await asyncio.sleep(LOOK_EVERY_S)
        return True

    def _late(self) -> list[str]:
        histories = self._model.documents.items()
        return [key.name for key, history in histories if history.newest < len(history.states) - 1]

    async def _last_lists(self) -> None:
        """Each user finds exactly what she may read, and what is hidden is told from what is absent by nothing."""
        for tenant in TENANTS:
            for name in USERS:
                user = Key(tenant, name)
                token = self._token(user)
                expected = {key.name for key in self._model.readable(user, frozenset({name}))}
                found: set[str] = set()
                cursor, total = None, None
                while report := await self._told(user, token, "", cursor):
                    found |= {str(each.document_id) for each in report.documents}
                    cursor, total = report.next, report.total
                    if cursor is None:
                        break
                if found != expected or total != len(expected):
                    self.report.wrong.append(f"{name} of {tenant} is told of {total}: {found ^ expected} differ")
                hidden = [key for key in self._model.documents if key.name not in expected and key.tenant == tenant]
                named = [
                    *(key.name for key in hidden if not self._model.may_know(user, frozenset({name}), key)),
                    f"doc-{self._drawing.word()}",
                ]
                told = [await self._told(user, token, each) for each in named[-3:]]
                if len({SECRET.sub("", _without_times(each)) for each in told if each}) > 1:
                    self.report.wrong.append(f"{name} of {tenant} can tell hidden from absent: {told}")
                if any(each is None or each.status is not ReportStatus.NOT_FOUND for each in told):
                    self.report.wrong.append(f"{name} of {tenant} is shown what is hidden: {told}")

    async def _hide(self) -> None:
        """Publish what nobody may read, and look whether any answer changes."""
        questions = [(Key(tenant, name), topic) for tenant in TENANTS for name in USERS[:2] for topic in TOPICS]
        before = [await self._asked(*each) for each in questions]
        hidden = [Key(tenant, f"doc-{self._drawing.word()}") for tenant in TENANTS for _ in range(HIDDEN)]
        for document in hidden:
            await self._upsert(document, f"zx{self._drawing.word()}", frozenset({"nobody"}))
        await self._settle()
        times: list[float] = []
        for (user, topic), former in zip(questions, before, strict=True):
            began = time.perf_counter()
            now = await self._asked(user, topic)
            times.append(1e3 * (time.perf_counter() - began))
            if former is None or now is None:
                continue
            self.report.compared += 1
            if (one := _rest(former)) != (other := _rest(now)):
                changed = [f"{a} became {b}" for a, b in zip_longest(one, other) if a != b]
                self.report.wrong.append(f"hidden documents change what {user} is told of {topic}: {changed[0]}")
        self.report.hidden_ms = median(times)
        times.clear()
        for user, _ in questions:
            began = time.perf_counter()
            await self._asked(user, f"x{self._drawing.word()}")
            times.append(1e3 * (time.perf_counter() - began))
        self.report.absent_ms = median(times)

    async def _asked(self, user: Key, topic: str) -> ContextResult | None:
        # Without the weight of BM25, whose statistics are those of the whole index, and with time for every step:
        # which of them fit into less follows from how long they took before.
        asked = _query(user, f"Wann endet die Frist für {topic}?", alpha=1.0, deadline_ms=MAX_DEADLINE_MS)
        return await self._answer(user, asked, self._token(user))

    def _search_files(self) -> None:
        """Look for text, questions and tokens in all that workers wrote beside the index."""
        signatures = [token.rpartition(".")[2] for token in self._tokens]
        for path in sorted(self._options.directory.rglob("*")):
            if not path.is_file() or path.suffix not in {".log", ".jsonl", ".ready", ".json"}:
                continue
            if "model" in path.relative_to(self._options.directory).parts:
                continue
            self.report.searched += 1
            text = path.read_text(encoding="utf-8", errors="replace")
            words = set(re.findall(r"zx[0-9a-f]{10}", text))
            asked = set(re.findall(r"qq[0-9a-f]{10}", text))
            held = [each for each in signatures if each in text]
            if words or asked or held:
                self.report.wrong.append(
                    f"{path.name} holds {len(words)} words of documents, {len(asked)} questions, {len(held)} tokens"
                )


def _query(user: Key, text: str, **options: Any) -> ContextQuery:
    return query(user.tenant, text, **{"top_k": 20, "mmr_lambda": 1.0, "deadline_ms": None, **options})


def _without_times(said: ContextResult | DocumentReport) -> str:
    return _TIMES.sub("", all_of(said))


def _rest(said: ContextResult) -> list[object]:
    """List all but the times, and scores of BM25, whose statistics are those of the whole index."""
    hits = [(hit.chunk_id, hit.version, hit.score, hit.dense_score) for hit in said.hits]
    # Those that run side by side end in any order, and the last look at the documents is for slow answers only.
    stages = sorted((stage.stage, stage.items) for stage in said.stages if stage.stage != RECHECK)
    others = (said.status, *said.notices, said.advice, said.variants, said.reranker, said.widened, said.generation)
    return [said.analysis, *stages, *others, *hits]
