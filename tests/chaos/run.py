"""A run: starts the stack, lets things happen, and compares in the end."""

import asyncio
import os
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from freki.infra.kafka import Reader
from freki.infra.kafka.connection import PROFILES
from freki.infra.settings import ModelSettings, Settings
from freki.operators.identify import record_key
from freki.schemas import (
    ContextQuery,
    DocumentChange,
    IndexOutcome,
    QueryId,
    RerankerChoice,
    ResultStatus,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import InfraError
from freki.streams.client import Asker, Publisher
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Outgoing
from freki.streams.wire.connect import open_asker, open_outbox, open_publisher
from freki.streams.wire.from_settings import topics_of, wall_clock
from freki.streams.wire.replaying import read_letters
from tests.chaos.books import Books
from tests.chaos.brokers import plan as broker_plan
from tests.chaos.brokers import strike
from tests.chaos.changes import ASKER, CHARACTERS, TENANT, Changes, Step
from tests.chaos.fleet import Fleet, NotReadyError
from tests.chaos.place import cluster_place, local_place
from tests.chaos.plan import Fault, Kind, first_workers, plan
from tests.chaos.store import Found, compare, read
from tests.chaos.waiting import Waiting, waiting
from tests.long_runs import watched
from tests.unit.tiny_models import write_hub_files, write_sentence_encoder

START_S = 180.0
DRAIN_S = 120.0
"""Without any receipt, and without any record that a stage finished; then receipts that are missing are lost."""
LOOK_EVERY_S = 10.0
"""How far the stages are."""
ANSWER_S = 12.0
LAST_ANSWER_S = 120.0
"""Where every question must have an answer: a busy machine that is slow has lost none."""
LAST_QUESTIONS = 20
READERS = 2
READ_PAUSE_S = 0.05
VERIFY_CHARACTERS = 2_000
STORM_PAUSE_S = 0.5
"""Between two changes while brokers are hit and workers are left alone."""
DIM = 16
TOMBSTONE_GAP_S = 0.01
"""A bare tombstone counts against what was recorded before it, by the millisecond."""

ENVIRONMENT: Mapping[str, str] = {
    "FREKI_MODELS__RERANKER": "none",
    "FREKI_MODELS__THREADS": "1",
    # Many parts, slices and batches out of little text.
    "FREKI_CHUNKING__PART_CHUNKS": "4",
    "FREKI_CHUNKING__MIN_TOKENS": "5",
    "FREKI_CHUNKING__TEXT__MAX_CHARS": "300",
    "FREKI_INGEST__SLICE_TOKENS": "512",
    "FREKI_INGEST__BATCH_EVENTS": "8",
    "FREKI_TELEMETRY__TRACE_SHARE": "0",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run."""

    seed: int
    faults: int
    wait_s: tuple[float, float]
    directory: Path
    changes: int = 0
    """Further ones, after the faults."""
    data: Path | None = None
    characters: int = CHARACTERS
    """Of a change with `data`, on average."""
    brokers: int = 0
    """Brokers of Apache Kafka; 0: the one of the local stack."""
    broker_faults: int = 0


@dataclass(slots=True)
class Report:
    """What happened, and what should not have."""

    faults: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    recorded: int = 0
    """Changes of the recorded stream."""
    outstanding: int = 0
    """Receipts that are due."""
    waiting: Waiting = field(default_factory=Waiting)
    gave_up: str = ""
    """Why the run ended before it could compare."""
    during: int = 0
    """Receipts that came before the last fault."""
    silence_s: float = 0.0
    """Longest time without a receipt while some were due and all workers were at work."""
    questions: int = 0
    answers: int = 0
    hits: int = 0
    degraded: int = 0
    unanswered: int = 0
    receipts: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0
    wrong: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    """Rows that no live manifest named when all was done."""
    left_of_deleted: int = 0
    """Of those, rows of documents that are deleted."""
    unswept: list[str] = field(default_factory=list)
    """Of those, rows that the next change of their document did not remove."""
    live: int = 0
    deleted: int = 0
    rows: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Is all as it should be?"""
        return not (self.gave_up or self.wrong or self.differences or self.unswept)


Show = Callable[[str, Report], None]
"""Gets what is being done, and the figures so far."""


class Run:
    """One run from start to end."""

    def __init__(self, options: Options, show: Show = lambda _doing, _report: None) -> None:
        self._options = options
        self._show = show
        self._changes = Changes(options.seed, options.data, characters=options.characters)
        self._books = Books()
        self.report = Report()
        self._doing = "starting"
        self._questions = random.Random(f"questions {options.seed}")  # noqa: S311 - not a secret
        self._began = time.monotonic()

    async def __call__(self) -> Report:
        """Run, and report; also where it is cancelled, in `report`."""
        try:
            await self._run()
        except NotReadyError as error:
            self._give_up(str(error))
        except asyncio.CancelledError:
            self._give_up("it was stopped from outside")
            raise
        return self.report

    def _give_up(self, why: str) -> None:
        self._update()
        report = self.report
        report.gave_up = f"while {self._doing}: {why}; {report.outstanding} receipts are outstanding; {report.waiting}"

    async def _run(self) -> None:
        options = self._options
        model = options.directory / "model"
        write_sentence_encoder(model, dim=DIM)
        write_hub_files(model, dim=DIM, max_tokens=512)
        settings = Settings(
            local=Settings().local.elsewhere(options.directory),
            models=ModelSettings(embedder=str(model), reranker=None),
        )
        async with AsyncExitStack() as opened:
            place = await opened.enter_async_context(
                cluster_place(settings, options.directory, options.brokers)
                if options.brokers
                else local_place(settings)
            )
            self._place, self._settings = place, place.settings
            self._environment = environment = {
                **ENVIRONMENT,
                "FREKI_MODELS__EMBEDDER": str(model),
                "FREKI_LOCAL__STATE_DIR": str(options.directory),
                **place.environment,
            }
            of_stage = {"embed": {"FREKI_MILVUS__URI": place.slow_store}}
            self._fleet = await opened.enter_async_context(Fleet(options.directory, environment, of_stage))
            self._publisher: Publisher = await opened.enter_async_context(open_publisher(self._settings))
            self._outbox: Outbox = (await opened.enter_async_context(open_outbox(self._settings)))[0]
            self._asker: Asker = await opened.enter_async_context(open_asker(self._settings))
            await self._happen()

    async def _happen(self) -> None:
        outcomes = topics_of(self._settings).outcomes.name
        async with AsyncExitStack() as opened:
            reader = await opened.enter_async_context(Reader(self._settings.kafka, outcomes, start="earliest"))
            listening = asyncio.create_task(self._listen(reader))
            opened.callback(listening.cancel)
            looking = asyncio.create_task(self._look_on())
            opened.callback(looking.cancel)
            for worker in first_workers():
                self._fleet.add(worker)
            await self._during("starting", self._fleet.settle(START_S))
            for step in self._changes.first():
                await self._publish(step)
            asking = [asyncio.create_task(self._ask_on()) for _ in range(READERS)]
            await self._during("faults", self._faults())
            await self._during("settling", self._fleet.settle(START_S))
            await self._during("draining", self._drain(listening))
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            for ended in asking:
                if not ended.cancelled():
                    ended.result()
            await self._during("last questions", self._last_questions())
            found = await self._compared("comparing")
            self.report.differences += found.differences
            if found.left_behind:
                self._note_left_behind(found)
                for name in sorted(found.left_behind):
                    await self._publish(self._changes.sweep(name))
                await self._during("sweeping", self._drain(listening))
            await self._during("verifying", self._verify())
            await self._during("leaving", self._fleet.end())
            if found.left_behind:
                found = await self._compared("comparing again")
                self.report.differences += found.differences
                self.report.unswept = _flat(found)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        self.report.live, self.report.deleted, self.report.rows = found.live, found.deleted, found.rows
        self._update()

    async def _during(self, doing: str, work: Coroutine[None, None, None]) -> None:
        """Show how work goes on."""
        self._doing = doing
        began = time.monotonic()

        def look() -> None:
            self._update()
            self._show(doing, self.report)

        try:
            await watched(work, look)
        finally:
            self.report.took_s[doing] = time.monotonic() - began

    def _update(self) -> None:
        books, report = self._books, self.report
        report.changes, report.answers, report.hits = books.changes, books.answers, books.hits
        report.receipts, report.wrong = books.receipts, books.wrong
        report.recorded, report.outstanding = self._changes.taken, len(books.due)
        report.endings, report.notes = self._fleet.endings, self._fleet.notes
        report.took_s["all"] = time.monotonic() - self._began

    async def _faults(self) -> None:
        striking = asyncio.create_task(self._broker_faults())
        session_s = PROFILES[self._settings.kafka.profile].session_timeout_s
        for fault in plan(self._options.seed, self._options.faults, wait_s=self._options.wait_s, session_s=session_s):
            if striking.done():
                striking.result()
            await asyncio.sleep(fault.wait_s - fault.after_s)
            for _ in range(fault.changes):
                await self._publish(self._changes.next())
            await asyncio.sleep(fault.after_s)
            await self._strike(fault)
            self.report.faults[fault.kind] += 1
        while not striking.done():
            await self._publish(self._changes.next())
            await asyncio.wait({striking}, timeout=STORM_PAUSE_S)
        striking.result()
        self.report.during = sum(self._books.receipts.values())
        for _ in range(self._options.changes):
            await self._publish(self._changes.next())

    async def _broker_faults(self) -> None:
        cluster, topics = self._place.cluster, topics_of(self._settings)
        if cluster is None:
            return
        faults = broker_plan(
            self._options.seed,
            self._options.broker_faults,
            brokers=len(cluster.brokers),
            partitions=self._settings.kafka.partitions,
            small_disk=self._place.small_disk,
        )
        for fault in faults:
            await asyncio.sleep(fault.wait_s)
            await strike(
                cluster, fault, topic=topics.documents.name, group=f"{self._settings.kafka.topic_prefix}.embed"
            )
            self.report.faults[f"broker: {fault.kind}"] += 1

    async def _strike(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.ADD:
                self._fleet.add(fault.worker)
            case Kind.REMOVE:
                await self._fleet.remove(fault.worker)
            case Kind.KILL:
                await self._fleet.kill(fault.worker)
            case Kind.STOP:
                await self._fleet.stop(fault.worker, fault.stopped_s)

    async def _publish(self, step: Step) -> None:
        if isinstance(step, DocumentChange):
            self._books.publish(step, wall_clock())
            await self._publisher.publish(step)
            return
        await asyncio.sleep(TOMBSTONE_GAP_S)
        state = self._books.publish(step, wall_clock())
        key = record_key(TENANT, step.document_id)
        await self._outbox.send(Outgoing(topic=topics_of(self._settings).documents.name, key=key, value=None))
        state.sent_ms = (state.sent_ms[0], wall_clock())
        await asyncio.sleep(TOMBSTONE_GAP_S)

    async def _listen(self, reader: Reader) -> None:
        decode = Codec(IndexOutcome).decode
        async for record in reader:
            if record.value is not None:
                self._books.receive(decode(record.value))

    async def _ask_on(self) -> None:
        while True:
            await self._ask()
            await asyncio.sleep(READ_PAUSE_S)

    async def _ask(self, *, patience_s: float = ANSWER_S) -> bool:
        """Ask a question and check its answer; tell whether there was one."""
        documents = sorted(self._books.states)
        words = " ".join(f"w{self._questions.randrange(100)}" for _ in range(3))
        query = ContextQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=TENANT,
            text=f"Welche Frist gilt für den Antrag von {self._questions.choice(documents)} {words}?",
            asked_at=wall_clock(),
            principals=(ASKER,),
            top_k=20,
            mmr_lambda=1.0,
            reranker=RerankerChoice.NONE,
        )
        least = self._books.least()
        self.report.questions += 1
        try:
            result = await self._asker.ask(query, patience_s=patience_s)
        except TimeoutError:
            self.report.unanswered += 1
            return False
        self.report.degraded += result.status is ResultStatus.DEGRADED
        self._books.judge(result, least)
        return True

    async def _drain(self, listening: asyncio.Task[None]) -> None:
        """Wait for the receipts that are due; those that do not come are lost, unless a dead letter says why."""
        await self._until_still(listening)
        letters = await read_letters(self._settings)
        self.report.dead_letters = len(letters.by_place)
        dead = {(letter.key or b"").decode().partition("/")[2] for letter in letters.by_place.values()}
        lost = [due for due in sorted(self._books.due) if due[0] not in dead]
        if lost:
            self.report.differences.append(
                f"gave up on {len(lost)} receipts: for {DRAIN_S:g} s none came, and no stage finished a record;"
                f" {self.report.waiting}"
            )
        for document, version, _ in lost:
            what = f"version {version}" if version else "a bare tombstone"
            self.report.differences.append(f"{document}: neither receipt nor dead letter for {what}")
        if self._options.data is None:
            # All that is made up here can be processed; a recorded stream may hold what cannot.
            self.report.differences += [
                f"{(letter.key or b'').decode()}: dead letter of {letter.stage}: {letter.message}"
                for letter in letters.by_place.values()
            ]
        self._books.due.clear()
        self.report.differences += self._books.strange
        self._books.strange.clear()

    async def _until_still(self, listening: asyncio.Task[None]) -> None:
        """Wait for all receipts, however long it takes as long as a stage gets on: a slow machine loses nothing."""
        received = outstanding = finished = -1
        heard = moved = time.monotonic()
        while self._books.due:
            if listening.done():
                listening.result()
            now = time.monotonic()
            self.report.silence_s = max(self.report.silence_s, now - heard)
            if received != (received := sum(self._books.receipts.values())):
                heard = now
            if now - moved > DRAIN_S:
                await self._look()
            # A receipt that only comes again is no progress.
            if (outstanding, finished) != (now_at := (len(self._books.due), self.report.waiting.finished)):
                (outstanding, finished), moved = now_at, now
            if now - moved > DRAIN_S:
                break
            await asyncio.sleep(0.2)

    async def _look_on(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        """Find out how far the stages are; while the broker does not say, what it said last counts."""
        with suppress(InfraError):
            self.report.waiting = await waiting(self._settings)

    async def _last_questions(self) -> None:
        """With all at work again, every question has an answer."""
        for _ in range(LAST_QUESTIONS):
            if not await self._ask(patience_s=LAST_ANSWER_S):
                self.report.differences.append("a question was not answered though all workers were at work")

    async def _verify(self) -> None:
        """Ask `freki verify` too, as an operator would."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "freki", "verify"),
            env={**os.environ, **self._environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        if process.returncode:
            self.report.differences.append(f"freki verify: {said.decode(errors='replace')[-VERIFY_CHARACTERS:]}")

    async def _compared(self, doing: str) -> Found:
        found = Found()

        async def work() -> None:
            nonlocal found
            contents = await asyncio.to_thread(read, self._settings.milvus.uri)
            found = compare(contents, self._books.states, TENANT)

        await self._during(doing, work())
        return found

    def _note_left_behind(self, found: Found) -> None:
        self.report.left_behind = _flat(found)
        gone = {name for name, states in self._books.states.items() if states[-1].content is None}
        self.report.left_of_deleted = sum(len(rows) for name, rows in found.left_behind.items() if name in gone)
        if not self._options.faults:
            self.report.differences.append(f"rows were left behind without any fault: {self.report.left_behind}")


def _flat(found: Found) -> list[str]:
    return [f"{name}: {row}" for name, rows in sorted(found.left_behind.items()) for row in rows]
