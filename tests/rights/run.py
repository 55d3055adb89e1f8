"""A run: starts the stack, does what was drawn, and compares each answer with the model."""

import asyncio
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from statistics import median

from freki.infra.kafka import Reader
from freki.infra.settings import AuthSettings, ModelSettings, Settings
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    GroupMembership,
    IndexOutcome,
    QueryId,
    ReportStatus,
    TenantId,
)
from freki.schemas import Operation as Change
from freki.schemas.avro import Codec
from freki.streams.client import Asker, DocumentAsker, Publisher
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Outgoing
from freki.streams.retrieve.memberships import membership_key
from freki.streams.wire.connect import apply_topics, open_asker, open_document_asker, open_outbox, open_publisher
from freki.streams.wire.from_settings import topics_of, wall_clock
from tests.chaos.fleet import Fleet
from tests.chaos.place import local_place
from tests.issuer import AUDIENCE, ISSUER, Issuer, key_server
from tests.rights.drawing import TOPICS, Drawing, Kind, Operation
from tests.rights.forging import FORGERIES
from tests.rights.model import SECRET, TENANTS, USERS, Key, Model, State, all_of
from tests.unit.tiny_models import write_hub_files, write_sentence_encoder

DIM = 16
AT_ONCE = 12
START_S, ANSWER_S, DRAIN_S = 180.0, 60.0, 180.0
GROUPS_S = 1.0
"""So long after a change of groups is stored, the groups before may still count."""
ERASED = 2**63 - 1
"""Version above all others."""
SHOWN_EVERY_S = 0.5
HIDDEN = 40
"""Documents that nobody may read, published to see whether anybody notices."""
USED = "used before"
WORKERS = ("chunk-1", "contextualise-1", "embed-1", "retrieve-1", "retrieve-2")
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
    """Each token serves one query, and answers go to topics of tenants; nobody may then ask about documents."""


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
        kinds = tuple(k for k in Kind if not (options.replay_window and k in (Kind.LIST, Kind.SHOW)))
        forgeries = (*FORGERIES, *([USED] if options.replay_window else []))
        self._drawing = Drawing(options.seed, forgeries, kinds)
        self._versions: Counter[Key] = Counter()
        self._secrets: dict[Key, str] = {}
        self._locks: dict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._used: list[tuple[str, Operation]] = []
        self._questions: list[str] = []
        self._tokens: list[str] = []
        self._extra = False
        self._waits: set[asyncio.Task[None]] = set()
        self.report = Report(seen=self._model.seen, wrong=self._model.wrong)

    async def __call__(self) -> Report:
        """Run, and report."""
        options = self._options
        model = options.directory / "model"
        write_sentence_encoder(model, dim=DIM)
        write_hub_files(model, dim=DIM)
        async with AsyncExitStack() as opened:
            served = opened.enter_context(key_server(self._issuer))
            auth = AuthSettings(
                jwks=served.url,
                issuer=ISSUER,
                audience=AUDIENCE,
                replay_window_s=300 if options.replay_window else 0,
                reply_topic="contexts-{tenant}" if options.replay_window else None,
            )
            settings = Settings(
                local=Settings().local.elsewhere(options.directory),
                models=ModelSettings(embedder=str(model), reranker=None),
                auth=auth,
            )
            place = await opened.enter_async_context(local_place(settings))
            self._settings = place.settings
            await apply_topics(self._settings, tenants=TENANTS if options.replay_window else ())
            environment = {
                **ENVIRONMENT,
                "FREKI_MODELS__EMBEDDER": str(model),
                "FREKI_LOCAL__STATE_DIR": str(options.directory),
                "FREKI_AUTH__JWKS": served.url,
                "FREKI_AUTH__ISSUER": ISSUER,
                "FREKI_AUTH__AUDIENCE": AUDIENCE,
                "FREKI_AUTH__REPLAY_WINDOW_S": str(auth.replay_window_s),
                "FREKI_AUTH__REPLY_TOPIC": auth.reply_topic or "",
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
        for worker in WORKERS:
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
        task = asyncio.ensure_future(work)
        while not task.done():
            self._show(doing, self.report)
            await asyncio.wait({task}, timeout=SHOWN_EVERY_S)
        task.result()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        topic, decode = topics_of(self._settings).outcomes.name, Codec(IndexOutcome).decode

        async def listen(reader: Reader) -> None:
            async for record in reader:
                if record.value is not None:
                    self._model.receive(decode(record.value))

        async with Reader(self._settings.kafka, topic, start="earliest") as reader:
            task = asyncio.create_task(listen(reader))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

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
            case _:
                await self._change_document(operation)
        self.report.done[operation.kind] += 1

    # Changes.

    async def _change_document(self, operation: Operation) -> None:
        document = operation.document
        async with self._locks[document]:
            if operation.kind is Kind.ERASE:
                await self._send(document, ERASED, Change.DELETE)
                return
            if operation.kind is Kind.RIGHTS and document not in self._secrets:
                return
            self._versions[document] += 1
            version = self._versions[document]
            if operation.kind is Kind.LATE:
                # Under a version below the erasure's: this word may never be seen.
                word = f"zx{self._drawing.word()}"
                self._model.owners[word] = document
                await self._publisher.publish(self._upsert(document, version, word, operation))
            elif operation.kind is Kind.DELETE:
                await self._send(document, version, Change.DELETE)
                self._secrets.pop(document, None)
            else:
                if operation.kind is Kind.EDIT:
                    self._secrets[document] = f"zx{self._drawing.word()}"
                secret = self._secrets[document]
                self._model.publish(document, State(version, secret, operation.readers))
                await self._publisher.publish(self._upsert(document, version, secret, operation))

    async def _send(self, document: Key, version: int, kind: Change) -> None:
        self._model.delete(document, version)
        change = DocumentChange(
            tenant=TenantId(document.tenant),
            document_id=DocumentId(document.name),
            operation=kind,
            version=version,
            occurred_at=wall_clock(),
        )
        await self._publisher.publish(change)

    def _upsert(self, document: Key, version: int, secret: str, operation: Operation) -> DocumentChange:
        topic = TOPICS[int(secret[-3:], 16) % len(TOPICS)]
        content = "\n\n".join(
            f"Absatz {number}: Wer {topic} beantragt, hält die Frist {secret} ein. {text}"
            for number, text in enumerate(
                ("Die Leitung entscheidet.", "Gegen den Bescheid ist Widerspruch möglich.", "Es gilt das Gesetz."), 1
            )
        )
        return DocumentChange(
            tenant=TenantId(document.tenant),
            document_id=DocumentId(document.name),
            operation=Change.UPSERT,
            version=version,
            occurred_at=wall_clock(),
            name=f"{topic}.txt",
            principals=tuple(sorted(operation.readers)),
            content=content,
        )

    async def _change_groups(self, operation: Operation) -> None:
        user = operation.user
        async with self._locks[user]:
            history = self._model.groups_of(user)
            history.states.append(operation.groups)
            place = len(history.states) - 1
            membership = GroupMembership(
                tenant=TenantId(user.tenant), principal=user.name, groups=tuple(sorted(operation.groups))
            )
            await self._outbox.send(
                Outgoing(
                    topic=topics_of(self._settings).groups.name,
                    key=membership_key(user.tenant, user.name),
                    value=Codec(GroupMembership).encode(membership) if operation.groups else None,
                )
            )

            async def passes() -> None:
                await asyncio.sleep(GROUPS_S)
                history.passed(place)

            task = asyncio.create_task(passes())
            self._waits.add(task)
            task.add_done_callback(self._waits.discard)

    async def _change_workers(self, operation: Operation) -> None:
        if operation.number % 3 == 0:
            await self._fleet.kill(WORKERS[operation.number % len(WORKERS)])
        elif self._extra:
            self._extra = False
            await self._fleet.remove(EXTRA)
        else:
            self._extra = True
            self._fleet.add(EXTRA)

    # Questions.

    def _token(self, operation: Operation) -> str:
        user = operation.user
        token = self._issuer.token(
            tenant=user.tenant, sub=user.name, groups=sorted(operation.claimed), jti=str(uuid.uuid4())
        )
        self._tokens.append(token)
        return token

    def _query(self, user: Key, text: str, *, top_k: int = 20) -> ContextQuery:
        return ContextQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=TenantId(user.tenant),
            text=text,
            asked_at=wall_clock(),
            top_k=top_k,
            mmr_lambda=1.0,
        )

    async def _answer(self, user: Key, query: ContextQuery, token: str | None) -> ContextResult | None:
        try:
            return await self._askers[user.tenant].ask(query, patience_s=ANSWER_S, token=token)
        except TimeoutError:
            self.report.unanswered += 1
            return None

    async def _ask(self, operation: Operation) -> None:
        user, token = operation.user, self._token(operation)
        text = f"Welche Frist gilt für {operation.topic}, gefragt unter qq{self._drawing.word()}?"
        since = self._model.moment(user)
        result = await self._answer(user, self._query(user, text), token)
        if result is None:
            return
        self._questions.append(text.rpartition(" ")[2].rstrip("?"))
        self.report.hits += len(result.hits)
        self._model.seen[f"answer: {result.status.value.lower()}"] += 1
        self._model.judge(result, user, operation.claimed | {user.name}, since)
        if self._options.replay_window:
            self._used.append((token, operation))

    async def _ask_about_documents(self, operation: Operation) -> None:
        user, since = operation.user, self._model.moment(operation.user)
        named = operation.document.name if operation.kind is Kind.SHOW else ""
        report = await self._told(user, self._token(operation), named)
        if report is not None:
            self._model.seen[f"report: {report.status.value.lower()}"] += 1
            self._model.judge(report, user, operation.claimed | {user.name}, since, named=named)

    async def _told(self, user: Key, token: str, named: str, cursor: str | None = None) -> DocumentReport | None:
        query = DocumentQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=TenantId(user.tenant),
            kind=DocumentQueryKind.SHOW if named else DocumentQueryKind.LIST,
            asked_at=wall_clock(),
            document_id=DocumentId(named) if named else None,
            cursor=cursor,
        )
        try:
            return await self._documents.ask(query, patience_s=ANSWER_S, token=token)
        except TimeoutError:
            self.report.unanswered += 1
            return None

    async def _forge(self, operation: Operation) -> None:
        user, kind = operation.user, operation.forgery
        if kind == USED:
            if not self._used:
                return
            # Taken away: the same query under way twice has one answer.
            token, before = self._used.pop(operation.number % len(self._used))
            user = before.user
        else:
            claims = {"tenant": user.tenant, "sub": user.name, "jti": str(uuid.uuid4())}
            token = FORGERIES[kind](self._issuer, claims) or ""
        query = self._query(user, f"Welche Frist gilt für {operation.topic}?", top_k=3)
        result = await self._answer(user, query, token or None)
        if result is not None:
            self._model.seen[f"refused: {kind}"] += 1
            self._model.refuse(result, user, kind)

    # In the end, with nothing under way.

    async def _settle(self) -> None:
        await self._fleet.settle(START_S)
        until = time.monotonic() + DRAIN_S
        while (late := self._late()) or self._waits:
            if time.monotonic() > until:
                self.report.wrong.append(f"no receipt for the last change of {late}")
                return
            await asyncio.sleep(SHOWN_EVERY_S)

    def _late(self) -> list[str]:
        histories = self._model.documents.items()
        return [key.name for key, history in histories if history.oldest < len(history.states) - 1]

    async def _last_lists(self) -> None:
        """Each user finds exactly what she may read, and what is hidden is told from what is absent by nothing."""
        for tenant in TENANTS:
            for name in USERS:
                user = Key(tenant, name)
                token = self._issuer.token(tenant=tenant, sub=name)
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
            operation = next(iter(self._drawing.draw(1)))
            await self._change_document(
                replace(operation, kind=Kind.EDIT, document=document, readers=frozenset({"nobody"}))
            )
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
        token = self._issuer.token(tenant=user.tenant, sub=user.name, jti=str(uuid.uuid4()))
        query = self._query(user, f"Wann endet die Frist für {topic}?")
        # Without the weight of BM25, whose statistics are those of the whole index.
        return await self._answer(user, replace(query, alpha=1.0), token)

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


def _without_times(said: ContextResult | DocumentReport) -> str:
    return _TIMES.sub("", all_of(said))


def _rest(said: ContextResult) -> list[object]:
    """List all but the times, and scores of BM25, whose statistics are those of the whole index."""
    hits = [(hit.chunk_id, hit.version, hit.score, hit.dense_score) for hit in said.hits]
    # Those that run side by side end in any order.
    stages = sorted((stage.stage, stage.items) for stage in said.stages)
    others = (said.status, *said.notices, said.advice, said.variants, said.reranker, said.widened, said.generation)
    return [said.analysis, *stages, *others, *hits]
