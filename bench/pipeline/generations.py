"""Change of the index: latency while another generation is filled, and whether a change loses or mixes answers.

Two workers of each stage run. One client asks, one query at a time, and another edits half of the documents. At rest
nothing else happens. Then `freki generations create` fills a generation with half the chunk size, `compare` asks both,
and `switch` changes over, back and over again. Then each step is taken again while workers are killed, one after the
other: those that fill, those that ingest, and one that answers in the middle of each switch.

Missing: no answer, or one that expired, was rejected or found nothing. Mixed: with a chunk of an unedited document that
the generation of the answer does not have. Pause: the longest time without an answer. Followed: from the start of the
command, with its start-up, to the last answer from the generation before.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path

from rich.table import Table

from bench.pipeline.corpus import TENANT, seeded, some, text_of
from bench.pipeline.edits import Histories, edits, histories
from bench.pipeline.ground import (
    FEWEST_CHARACTERS,
    PATIENCE_S,
    Asked,
    Figures,
    Ground,
    Stack,
    ask_once,
    percentiles,
    publish,
    questions,
)
from freki.infra.local.state import environment_for
from freki.schemas import ChunkId, DocumentChange, DocumentId, ResultStatus
from freki.streams.wire.connect import open_asker, open_index, open_publisher, open_receipts
from freki.streams.wire.from_settings import settings_named, wall_clock

TITLE = "Generations: another index takes over"
OTHER = "g2"
FIRST = "g1"
WORKERS = (*[("chunk", "contextualise")] * 2, *[("embed",)] * 2, *[("retrieve",)] * 2)
INGESTING = ("chunk-contextualise", "chunk-contextualise-2", "embed", "embed-2")
ANSWERING = ("retrieve", "retrieve-2")
LONGEST_CHARACTERS = 60_000
"""Longest document in characters: a subset of a stream has many documents, and an edit does not take minutes."""
QUESTIONS, QUICK_QUESTIONS = 300, 32
REST_S, QUICK_REST_S = 30.0, 8.0
FILLING_S = 10.0
"""Time of filling before the first worker is killed, in seconds."""
EDIT_EVERY_S = 3.0
DEADLINE_MS = 60_000
"""Deadline of queries: those of a worker that was killed wait until another one has its partitions."""
SETTLED_S = 1.0
COMPARED = 100
"""Recorded queries that are compared."""
SWITCHES = (OTHER, FIRST, OTHER)
SWITCHES_WITH_KILLS = (FIRST, OTHER)
GOOD = {ResultStatus.COMPLETE, ResultStatus.DEGRADED}

Held = Mapping[DocumentId, tuple[int, frozenset[ChunkId]]]
"""Version and chunks of each document."""


@dataclass
class Traffic:
    """Answers so far, in order, and the number of edits with a receipt."""

    answers: list[Asked] = field(default_factory=list)
    edits: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def answered(self, more: int) -> None:
        """Wait for so many further answers."""
        wanted = len(self.answers) + more
        async with asyncio.timeout(PATIENCE_S):
            while len(self.answers) < wanted:
                self.arrived.clear()
                await self.arrived.wait()


async def measure(ground: Ground) -> Figures:
    """Measure at the largest size."""
    recorded = histories(ground.corpus)
    chosen = _moderate(ground.corpus.documents(), recorded)
    documents = list(some(chosen, characters=FEWEST_CHARACTERS * ground.sizes[-1]))
    edited = documents[: len(documents) // 2]
    asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS, documents)
    async with ground.open_stack(workers=WORKERS) as stack:
        with ground.step("filling the first generation", len(documents)) as advance:
            filled = await publish(stack.settings, documents, advance=advance)
        changes = edits(edited, recorded, seeded(ground.seed), version=wall_clock())
        async with _traffic(stack, asked, changes) as traffic:
            course = _Course(ground, stack, traffic)
            figures = await course.run()
        first, second = await _alike(stack)
    unedited = {change.document_id for change in documents} - {change.document_id for change in edited}
    checked, mixed = _mixed(traffic.answers, {FIRST: first, OTHER: second}, unedited)
    return {
        "documents": len(documents),
        "chunks": filled.chunks,
        "first_s": filled.seconds,
        "other_chunks": sum(len(chunks) for _, chunks in second.values()),
        "edits": traffic.edits,
        "answers": len(traffic.answers),
        "missing": sum(not _is_good(answer) for answer in traffic.answers),
        "checked": checked,
        "mixed": mixed,
        "different": sum(first.get(name, (0,))[0] != version for name, (version, _) in second.items())
        + len(first.keys() - second.keys()),
        **figures,
    }


def _moderate(documents: Iterable[DocumentChange], recorded: Histories) -> Iterator[DocumentChange]:
    """Yield the documents of which no version is longer than `LONGEST_CHARACTERS`."""
    for document in documents:
        texts = (text_of(document), *recorded.get(document.document_id, ()))
        if max(map(len, texts)) <= LONGEST_CHARACTERS:
            yield document


class _Course:
    """The steps from rest to the last switch."""

    def __init__(self, ground: Ground, stack: Stack, traffic: Traffic) -> None:
        self._ground = ground
        self._stack = stack
        self._traffic = traffic
        self._phases: list[Figures] = []
        self._kills = 0

    async def run(self) -> Figures:
        with self._ground.step("at rest, filling, comparing, switching", 4) as advance:
            async with self._phase("at rest"):
                await asyncio.sleep(QUICK_REST_S if self._ground.quick else REST_S)
            advance(1)
            started_s = time.perf_counter()
            async with _open_filler(self._stack) as filler:
                async with self._phase("filling"):
                    await filler.full(within_s=FILLING_S)
                async with self._phase("filling, workers killed"):
                    while_filling = await self._kill_while_filling(filler)
                    await filler.full()
                took_s = time.perf_counter() - started_s
                advance(1)
                async with self._phase("comparing, workers killed"):
                    compared = await self._compare()
                advance(1)
                switches = [await self._switch(name, kill=False) for name in SWITCHES]
                switches += [await self._switch(name, kill=True) for name in SWITCHES_WITH_KILLS]
                advance(1)
                await asyncio.sleep(SETTLED_S)
        return {
            "other_s": took_s,
            "kills": self._kills,
            "kills_while_filling": while_filling,
            "compared": compared,
            "phases": self._phases,
            "switches": switches,
        }

    @asynccontextmanager
    async def _phase(self, name: str) -> AsyncIterator[None]:
        begun = len(self._traffic.answers)
        yield
        # Until one that was asked in this phase is answered.
        await self._traffic.answered(2)
        answers = self._traffic.answers[begun:]
        self._phases.append(
            {"name": name, "answers": len(answers), "ms": _spread(answers), "pause_ms": _pause(answers)}
        )

    async def _kill_while_filling(self, filler: "_Filler") -> int:
        """Kill what fills, then each worker; return how many kills were before it was full."""
        while_filling = 0
        await filler.kill()
        self._kills += 1
        while_filling += 1
        for name in (*INGESTING, *ANSWERING):
            while_filling += not filler.is_full
            await self._kill(name)
        return while_filling

    async def _kill(self, name: str) -> None:
        """Kill a worker that is ready, and wait until its successor is."""
        ready = self._stack.ready[name]
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
            ready.clear()
            os.kill(self._stack.pids[name], signal.SIGKILL)
            self._kills += 1
            await ready.wait()

    async def _compare(self) -> str:
        """Compare both generations while a worker that answers is killed; return what the command says of hits."""
        process = await _command(self._stack, "compare", FIRST, OTHER, "--recorded", str(COMPARED))
        killing = asyncio.create_task(self._kill(ANSWERING[0]))
        output = await _output(process)
        await killing
        return next(line for line in output.splitlines() if line.startswith("The same first document"))

    async def _switch(self, name: str, *, kill: bool) -> Figures:
        begun, started_s = len(self._traffic.answers), time.perf_counter()
        process = await _command(self._stack, "switch", name, "--force")
        killing = [asyncio.create_task(self._kill(each)) for each in (ANSWERING[0], INGESTING[-1]) if kill]
        await _output(process)
        await asyncio.gather(*killing)
        await asyncio.sleep(SETTLED_S)
        await self._traffic.answered(2)
        around = self._traffic.answers[max(0, begun - 1) :]
        before = [answer.ended_s for answer in around if answer.result.generation != name]
        return {
            "to": name,
            "killed": kill,
            "followed_s": max(before, default=started_s) - started_s,
            "pause_ms": _pause(around),
            "ms": _spread(around),
        }


@asynccontextmanager
async def _traffic(stack: Stack, asked: Sequence[str], changes: Iterator[DocumentChange]) -> AsyncIterator[Traffic]:
    traffic, stop = Traffic(), asyncio.Event()

    async def ask() -> None:
        async with open_asker(stack.settings) as asker:
            for text in cycle(asked):
                if stop.is_set():
                    return
                traffic.answers.append(await ask_once(asker, text, deadline_ms=DEADLINE_MS))
                traffic.arrived.set()

    async def edit() -> None:
        async with open_receipts(stack.settings) as receipts, open_publisher(stack.settings) as publisher:
            for change in changes:
                if stop.is_set():
                    return
                receipts.expect(change)
                await publisher.publish(change)
                await receipts.next(patience_s=PATIENCE_S)
                traffic.edits += 1
                await asyncio.sleep(EDIT_EVERY_S)

    async with asyncio.TaskGroup() as group:
        group.create_task(ask())
        group.create_task(edit())
        try:
            yield traffic
        finally:
            stop.set()


class _Filler:
    """`freki generations create`, which fills the other generation and keeps it up to date."""

    def __init__(self, stack: Stack) -> None:
        limits = stack.settings.chunking
        self._stack = stack
        self._smaller = {
            "FREKI_CHUNKING__MIN_TOKENS": str(limits.min_tokens // 2),
            "FREKI_CHUNKING__MAX_TOKENS": str(limits.max_tokens // 2),
            "FREKI_MODELS__EMBED_CACHE_MB": "0",
        }
        self._process: asyncio.subprocess.Process
        self._reading: asyncio.Task[None]
        self._full = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether it holds what the topic held."""
        return self._full.is_set()

    async def start(self) -> None:
        """Start the command."""
        self._process = await _command(self._stack, "create", OTHER, **self._smaller)
        self._reading = asyncio.create_task(self._read(self._process))

    async def stop(self, number: signal.Signals) -> None:
        """End the command and the worker that it runs."""
        self._reading.cancel()
        os.killpg(self._process.pid, number)
        await self._process.wait()

    async def kill(self) -> None:
        """Kill the command and its worker, and start it again."""
        await self.stop(signal.SIGKILL)
        await self.start()

    async def full(self, *, within_s: float | None = None) -> None:
        """Wait until it holds what the topic held; no longer than that many seconds. Raises RuntimeError if it ends."""
        waiting = asyncio.create_task(self._full.wait())
        await asyncio.wait({waiting, self._reading}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._reading.done():
            self._reading.result()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        said = b""
        async for line in process.stdout:
            said += line
            if f"{OTHER} holds".encode() in line:
                self._full.set()
        raise RuntimeError(f"freki generations create ended with {await process.wait()}: {said.decode()}")


@asynccontextmanager
async def _open_filler(stack: Stack) -> AsyncIterator[_Filler]:
    filler = _Filler(stack)
    await filler.start()
    try:
        yield filler
    finally:
        await filler.stop(signal.SIGINT)


async def _command(stack: Stack, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "generations", *arguments),
        env={
            **os.environ,
            **environment_for(stack.settings, stack.state),
            "FREKI_LOCAL__STATE_DIR": str(stack.state.directory),
            "COLUMNS": "200",
            **variables,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )


async def _output(process: asyncio.subprocess.Process) -> str:
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(output.decode())
    return output.decode()


async def _alike(stack: Stack) -> tuple[Held, Held]:
    """Read both generations once they have the same versions, or as they are after `PATIENCE_S`."""
    until_s = time.perf_counter() + PATIENCE_S
    while True:
        first, second = [await _held(stack, name) for name in (FIRST, OTHER)]
        versions = [{name: version for name, (version, _) in each.items()} for each in (first, second)]
        if versions[0] == versions[1] or time.perf_counter() > until_s:
            return first, second
        await asyncio.sleep(SETTLED_S)


async def _held(stack: Stack, generation: str) -> Held:
    async with open_index(settings_named(stack.settings, generation)) as index:
        roots = [root async for root in index.all_roots(tenant=TENANT) if not root.deleted]
        pages = await index.pages([page for root in roots for page in root.pages])
    return {
        root.document_id: (
            root.version,
            frozenset(entry.chunk_id for page in root.pages for entry in pages[page].entries),
        )
        for root in roots
    }


def _is_good(answer: Asked) -> bool:
    return answer.result.status in GOOD and bool(answer.result.hits)


def _mixed(answers: Sequence[Asked], held: Mapping[str, Held], unedited: set[DocumentId]) -> tuple[int, int]:
    """Return the number of hits in unedited documents, and of answers with one that their generation does not have."""
    checked = mixed = 0
    for answer in answers:
        there = held[answer.result.generation]
        hits = [hit for hit in answer.result.hits if hit.document_id in unedited]
        checked += len(hits)
        mixed += any(hit.chunk_id not in there[hit.document_id][1] for hit in hits)
    return checked, mixed


def _pause(answers: Sequence[Asked]) -> float:
    return max((1000 * (later.ended_s - earlier.ended_s) for earlier, later in pairwise(answers)), default=0.0)


def _spread(answers: Iterable[Asked]) -> dict[str, float]:
    return percentiles(answer.milliseconds for answer in answers)


def tables(figures: Figures) -> list[Table]:
    """Return the latency in each phase."""
    table = Table(
        title=f"A second index of {figures['documents']:,} documents: {figures['other_chunks']:,} chunks in "
        f"{figures['other_s']:.0f} s beside {figures['chunks']:,} that answer",
        caption=f"{figures['answers']:,} answers: {figures['missing']} missing, {figures['mixed']} mixed "
        f"({figures['checked']:,} hits checked); {figures['kills']} workers killed, {figures['kills_while_filling']} of"
        f" them while filling; {figures['edits']:,} edits, {figures['different']} documents differ in the end. "
        f"{figures['compared']}",
    )
    for column in ("while", "answers", "p50 ms", "p95 ms", "p99 ms", "followed s", "longest pause ms"):
        table.add_column(column, justify="left" if column == "while" else "right")
    for each in figures["phases"]:
        table.add_row(each["name"], str(each["answers"]), *_cells(each["ms"]), "–", f"{each['pause_ms']:.0f}")
    for each in figures["switches"]:
        name = f"switching to {each['to']}" + (", workers killed" if each["killed"] else "")
        table.add_row(name, "", *_cells(each["ms"]), f"{each['followed_s']:.1f}", f"{each['pause_ms']:.0f}")
    return [table]


def _cells(spread: Mapping[str, float]) -> Iterator[str]:
    return (f"{spread[share]:.0f}" for share in ("p50", "p95", "p99"))


def draw(figures: Figures, folder: Path) -> list[Path]:  # noqa: ARG001 - a table says it all
    """Draw nothing."""
    return []
