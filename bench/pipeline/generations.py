"""Change of the index: latency while another generation is filled, and whether a switch loses an answer.

One client asks, one query at a time, and another edits documents. At rest nothing else happens. Then
`freki generations create` fills a generation with half the chunk size, and `freki generations switch` changes over,
back and over again.

Pause: the longest time without an answer around a switch. Followed: from the start of the command, with its start-up,
to the last answer from the generation before.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle, pairwise
from pathlib import Path

from rich.table import Table

from bench.pipeline.corpus import TENANT, some
from bench.pipeline.ground import (
    FEWEST_CHARACTERS,
    PATIENCE_S,
    Asked,
    Figures,
    Ground,
    Stack,
    ask_once,
    indexed,
    percentiles,
    publish,
    questions,
)
from freki.infra.local.state import environment_for
from freki.schemas import DocumentChange
from freki.streams.wire.connect import open_asker, open_publisher, open_receipts
from freki.streams.wire.from_settings import settings_named, wall_clock

TITLE = "Generations: another index takes over"
OTHER = "g2"
FIRST = "g1"
QUESTIONS, QUICK_QUESTIONS = 300, 32
REST_S, QUICK_REST_S = 30.0, 8.0
EDIT_EVERY_S = 0.5
SWITCHES = (OTHER, FIRST, OTHER)


@dataclass
class Traffic:
    """Answers so far, in order, and the number of edits with a receipt."""

    answers: list[Asked] = field(default_factory=list)
    edits: int = 0


async def measure(ground: Ground) -> Figures:
    """Measure at the largest size."""
    asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS)
    documents = list(some(ground.corpus.documents(), characters=FEWEST_CHARACTERS * ground.sizes[-1]))
    async with ground.open_stack() as stack:
        with ground.step("filling the first generation", len(documents)) as advance:
            filled = await publish(stack.settings, documents, advance=advance)
        async with _traffic(stack, asked, documents) as traffic:
            with ground.step("at rest, filling, switching", 3) as advance:
                await asyncio.sleep(QUICK_REST_S if ground.quick else REST_S)
                at_rest = _spread(traffic.answers)
                advance(1)
                begun = len(traffic.answers)
                started = time.perf_counter()
                async with _filling(stack) as full:
                    await full.wait()
                    took_s = time.perf_counter() - started
                    filling = _spread(traffic.answers[begun:])
                    advance(1)
                    switches = [await _switch(stack, traffic, name) for name in SWITCHES]
                    advance(1)
        held = await indexed(settings_named(stack.settings, OTHER), TENANT)
    return {
        "documents": len(documents),
        "chunks": filled.chunks,
        "first_s": filled.seconds,
        "other_chunks": sum(held.values()),
        "other_s": took_s,
        "edits": traffic.edits,
        "answers": len(traffic.answers),
        "empty": sum(not answer.result.hits for answer in traffic.answers),
        "at_rest_ms": at_rest,
        "filling_ms": filling,
        "switches": switches,
    }


@asynccontextmanager
async def _traffic(stack: Stack, asked: Sequence[str], documents: Sequence[DocumentChange]) -> AsyncIterator[Traffic]:
    traffic, stop = Traffic(), asyncio.Event()

    async def ask() -> None:
        async with open_asker(stack.settings) as asker:
            for text in cycle(asked):
                if stop.is_set():
                    return
                traffic.answers.append(await ask_once(asker, text))

    async def edit() -> None:
        async with open_receipts(stack.settings) as receipts, open_publisher(stack.settings) as publisher:
            for document in cycle(documents[: len(documents) // 2]):
                if stop.is_set():
                    return
                change = replace(document, version=wall_clock(), occurred_at=wall_clock())
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


@asynccontextmanager
async def _filling(stack: Stack) -> AsyncIterator[asyncio.Event]:
    """Fill the other generation; the event is set once it holds everything."""
    limits = stack.settings.chunking
    smaller = {
        "FREKI_CHUNKING__MIN_TOKENS": str(limits.min_tokens // 2),
        "FREKI_CHUNKING__MAX_TOKENS": str(limits.max_tokens // 2),
        "FREKI_MODELS__EMBED_CACHE_MB": "0",
    }
    process = await _command(stack, "create", OTHER, **smaller)
    full = asyncio.Event()

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if f"{OTHER} holds".encode() in line:
                full.set()
        if not full.is_set():
            raise RuntimeError(f"freki generations create ended with {await process.wait()}")

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        yield full
        os.killpg(process.pid, signal.SIGINT)
        await process.wait()


async def _switch(stack: Stack, traffic: Traffic, name: str) -> Figures:
    begun, started_s = len(traffic.answers), time.perf_counter()
    process = await _command(stack, "switch", name, "--force")
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(output.decode())
    await asyncio.sleep(1.0)
    around = traffic.answers[max(0, begun - 1) :]
    pause_ms = max(1000 * (later.ended_s - earlier.ended_s) for earlier, later in pairwise(around))
    before = [answer.ended_s for answer in around if answer.result.generation != name]
    return {
        "to": name,
        "followed_s": max(before, default=started_s) - started_s,
        "pause_ms": pause_ms,
        "ms": _spread(around),
    }


async def _command(stack: Stack, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "generations", *arguments),
        env={
            **os.environ,
            **environment_for(stack.settings, stack.state),
            "FREKI_LOCAL__STATE_DIR": str(stack.state.directory),
            **variables,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )


def _spread(answers: Iterable[Asked]) -> dict[str, float]:
    return percentiles(answer.milliseconds for answer in answers)


def tables(figures: Figures) -> list[Table]:
    """Return the latency in each phase."""
    table = Table(
        title=f"A second index of {figures['documents']:,} documents: {figures['other_chunks']:,} chunks in "
        f"{figures['other_s']:.0f} s beside {figures['chunks']:,} that answer",
        caption=f"{figures['answers']:,} answers, {figures['empty']} without a hit; {figures['edits']:,} edits",
    )
    for column in ("while", "p50 ms", "p95 ms", "p99 ms", "followed s", "longest pause ms"):
        table.add_column(column, justify="left" if column == "while" else "right")
    for name, spread in (("at rest", figures["at_rest_ms"]), ("filling", figures["filling_ms"])):
        table.add_row(name, *(f"{spread[share]:.0f}" for share in ("p50", "p95", "p99")), "–", "–")
    for each in figures["switches"]:
        times = (f"{each['ms'][share]:.0f}" for share in ("p50", "p95", "p99"))
        table.add_row(f"switching to {each['to']}", *times, f"{each['followed_s']:.1f}", f"{each['pause_ms']:.0f}")
    return [table]


def draw(figures: Figures, folder: Path) -> list[Path]:  # noqa: ARG001 - a table says it all
    """Draw nothing."""
    return []
