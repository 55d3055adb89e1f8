"""What all measurements stand on: a stack of their own, documents that get into it, questions, and who measures.

A measurement is a module with `TITLE`, `measure`, `tables` and `draw` (see `Measurement`), named in `__main__.py`.
"""

import asyncio
import math
import shutil
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from rich.progress import Progress
from rich.table import Table

from bench.pipeline.corpus import TENANT, Corpus, questions_of, some, text_of
from freki.cli.evaluate.place import pipeline_of
from freki.cli.operate import report
from freki.infra.local.children import Died, Event, Restarting, Started, Unready
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import StackState, settings_for
from freki.infra.models import open_token_counter
from freki.infra.settings import Settings
from freki.schemas import ContextQuery, ContextResult, DocumentChange, IndexOutcome, QueryId, TenantId
from freki.schemas.names import record
from freki.streams.client import Asker
from freki.streams.ingest.outline import Outliner
from freki.streams.wire.connect import (
    apply_topics,
    open_asker,
    open_index,
    open_outliner,
    open_publisher,
    open_receipts,
)
from freki.streams.wire.from_settings import wall_clock

PATIENCE_S = 300.0
"""Longest wait for a receipt or an answer before a measurement gives up."""
FEWEST_CHARACTERS = 250
"""Of a chunk, on average: what is under way makes at most as many chunks as this says, so that few are too many."""
UNDER_WAY = 256
"""Documents that are published and have no receipt yet, while an index is filled."""
BENCHMARK = "this benchmark (publishes, reads receipts)"
"""How the process that measures is called beside those of a stack."""
QUESTIONS_FROM = 300_000
"""Characters of the documents that questions are made from: the first ones, which every index of 1,000 chunks holds."""

Figures = dict[str, Any]
"""What a measurement found: only what JSON can hold."""
Advance = Callable[[float], None]
"""Tells that so much more of a step is done."""


class Measurement(Protocol):
    """What `__main__` wants of a module."""

    @property
    def TITLE(self) -> str:  # noqa: N802 - a constant of a module
        """What is measured, as a heading."""

    async def measure(self, ground: "Ground") -> Figures:
        """Measure."""

    def tables(self, figures: Figures) -> list[Table]:
        """Show the figures; each table has a title; cells are strings."""

    def draw(self, figures: Figures, folder: Path) -> list[Path]:
        """Draw PNG files into an existing folder; their names begin with the measurement's. Matplotlib is here."""


@record
class Ground:
    """What a run gives to each measurement."""

    settings: Settings
    """As the environment has them; no stack runs there."""
    corpus: Corpus
    sizes: tuple[int, ...]
    """Chunks in the index, ascending: to measure at each of them."""
    quick: bool
    """A run that only has to show that everything works: less of all."""
    seed: int
    keep: Path
    """Where stacks with a name stay: for the other measurements of this run, with `--keep` for later runs too."""
    progress: Progress

    @contextmanager
    def step(self, what: str, total: float) -> Iterator[Advance]:
        """Show a step with a bar and the time that is left."""
        bar = self.progress.add_task(what, total=total)
        try:
            yield lambda more: self.progress.advance(bar, more)
        finally:
            self.progress.remove_task(bar)

    @asynccontextmanager
    async def open_stack(
        self,
        name: str | None = None,
        *,
        workers: Sequence[Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "AsyncIterator[Stack]":
        """Run a stack with a state directory of its own: an empty one, or with a name the one that was left under it.

        Topics are always empty at first: the local broker keeps them in memory.
        """
        async with AsyncExitStack() as opened:
            if name:
                directory = self.keep.absolute() / name
            else:
                directory = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="freki-bench-")))
            own = self.settings.model_copy(update={"local": self.settings.local.elsewhere(directory)})
            pids: dict[str, int] = {}
            running = LocalStack(
                own,
                report=lambda event: _note(event, pids),
                prepare=apply_topics,
                workers=workers,
                # Copies of documents, and edits that are undone, cost what others cost.
                environment={"FREKI_MODELS__EMBED_CACHE_MB": "0", **(environment or {})},
            )
            with self.step("starting broker, store and workers", 1):
                stack = await opened.enter_async_context(running)
            yield Stack(settings_for(own, stack.state), stack.state, pids)


def _note(event: Event, pids: dict[str, int]) -> None:
    if isinstance(event, Started):
        pids[event.name] = event.pid
    elif isinstance(event, (Died, Restarting, Unready)):
        report(event)


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that runs."""

    settings: Settings
    """Point at it."""
    state: StackState
    pids: dict[str, int]
    """Process of each child by name: broker, store, and each worker; `processes` says what they have used."""


@record
class Published:
    """What became of changes."""

    seconds: float
    """From the first event until the last receipt."""
    outcomes: tuple[IndexOutcome, ...]
    """In the order of their arrival."""

    @property
    def chunks(self) -> int:
        """Chunks of these revisions."""
        return sum(outcome.chunks for outcome in self.outcomes)


async def publish(
    settings: Settings, changes: Iterable[DocumentChange], *, advance: Advance = lambda _: None
) -> Published:
    """Publish all, wait for their receipts; `advance` gets 1 for each. Raises TimeoutError if none comes for long."""
    async with open_receipts(settings) as receipts, open_publisher(settings) as publisher:
        started = time.perf_counter()
        sent = 0
        for change in changes:
            receipts.expect(change)
            await publisher.publish(change)
            sent += 1
        outcomes = []
        for _ in range(sent):
            outcomes.append(await receipts.next(patience_s=PATIENCE_S))
            advance(1)
        return Published(seconds=time.perf_counter() - started, outcomes=tuple(outcomes))


async def indexed(settings: Settings, tenant: TenantId = TENANT) -> dict[str, int]:
    """Give the chunks of each live document."""
    async with open_index(settings) as index:
        return {
            root.document_id: root.chunks
            async for root in index.all_roots()
            if root.tenant == tenant and not root.deleted
        }


@asynccontextmanager
async def open_filled(
    ground: Ground, chunks: int, environment: Mapping[str, str] | None = None
) -> "AsyncIterator[Stack]":
    """Run a stack whose index holds this many chunks of the corpus, or some more: found, or filled now.

    It goes on from the largest smaller one that is there. Whoever publishes to it must use another tenant than the
    corpus, and delete what it published; versions must be above those of earlier runs, such as the time.
    """
    name = _name_of_filled(ground)
    if not (ground.keep / f"{name}-{chunks}").exists():
        _go_on_from_a_smaller_one(ground.keep, name, chunks)
    async with ground.open_stack(f"{name}-{chunks}", environment=environment) as stack:
        await fill(ground, stack, chunks)
        yield stack


def _name_of_filled(ground: Ground) -> str:
    """Name what fills an index, so that a later run with other documents, models or limits fills another."""
    parts = [ground.corpus.named, str(ground.corpus.seed), *pipeline_of(ground.settings)]
    return f"filled-{sha256(repr(parts).encode()).hexdigest()[:8]}"


def _go_on_from_a_smaller_one(keep: Path, name: str, chunks: int) -> None:
    sizes = [int(found.name.rpartition("-")[2]) for found in keep.glob(f"{name}-*")]
    best = max((size for size in sizes if size < chunks), default=None)
    if best is not None:
        shutil.copytree(keep / f"{name}-{best}" / "store", keep / f"{name}-{chunks}" / "store")


async def fill(ground: Ground, stack: Stack, chunks: int) -> Published:
    """Index documents of the corpus, in its order, until the tenant of the benchmark has this many chunks.

    What is indexed already counts. The last document may bring some chunks more.
    """
    there = await indexed(stack.settings)
    held = sum(there.values())
    missing = (change for change in ground.corpus.documents() if change.document_id not in there)
    outcomes: list[IndexOutcome] = []
    started = time.perf_counter()
    with ground.step(f"filling the index to {chunks:,} chunks", chunks) as advance:
        advance(held)
        async with open_receipts(stack.settings) as receipts, open_publisher(stack.settings) as publisher:
            under_way: dict[str, int] = {}
            while held < chunks or under_way:
                expected = held + sum(under_way.values())
                if expected < chunks and len(under_way) < UNDER_WAY:
                    change = next(missing)
                    under_way[change.document_id] = -(-len(text_of(change)) // FEWEST_CHARACTERS)
                    receipts.expect(change)
                    await publisher.publish(change)
                    continue
                outcome = await receipts.next(patience_s=PATIENCE_S)
                del under_way[outcome.document_id]
                outcomes.append(outcome)
                held += outcome.chunks
                advance(outcome.chunks)
    return Published(seconds=time.perf_counter() - started, outcomes=tuple(outcomes))


@asynccontextmanager
async def outliner(settings: Settings) -> AsyncIterator[Outliner]:
    """Chunk as the stack does."""
    async with open_outliner(settings, await open_token_counter(settings.models)) as opened:
        yield opened


async def questions(ground: Ground, number: int) -> list[str]:
    """Make questions that the first documents of the corpus answer."""
    first = some(ground.corpus.documents(), characters=QUESTIONS_FROM)
    async with outliner(ground.settings) as outline:
        chunks = [chunk for change in first for chunk in (await outline(change, text_of(change))).chunks]
    return questions_of(chunks, number, seed=ground.seed)


@record
class Asked:
    """An answer, and how long it took."""

    result: ContextResult
    started_s: float
    """By the performance counter."""
    milliseconds: float
    """From the call of the asker until the answer is decoded: topics and their transport included."""

    @property
    def ended_s(self) -> float:
        """By the performance counter."""
        return self.started_s + self.milliseconds / 1000


async def ask(
    settings: Settings,
    texts: Sequence[str],
    *,
    at_once: int,
    tenant: TenantId = TENANT,
    advance: Advance = lambda _: None,
    **options: Any,
) -> list[Asked]:
    """Ask all, so many in flight; `options` are fields of ContextQuery. Answers come in the order of the questions."""
    slots = asyncio.Semaphore(at_once)
    async with open_asker(settings) as asker:

        async def one(text: str) -> Asked:
            async with slots:
                answer = await ask_once(asker, text, tenant=tenant, **options)
                advance(1)
                return answer

        return list(await asyncio.gather(*(one(text) for text in texts)))


async def ask_once(asker: Asker, text: str, *, tenant: TenantId = TENANT, **options: Any) -> Asked:
    """Ask one question; `options` are fields of ContextQuery."""
    started = time.perf_counter()
    query = ContextQuery(
        query_id=QueryId(str(uuid.uuid4())), tenant=tenant, text=text, asked_at=wall_clock(), **options
    )
    result = await asker.ask(query, patience_s=PATIENCE_S)
    return Asked(result=result, started_s=started, milliseconds=(time.perf_counter() - started) * 1000)


def percentiles(values: Iterable[float], shares: Sequence[int] = (50, 95, 99)) -> dict[str, float]:
    """Give p50, p95, p99 by the nearest rank: each is one of the values. Raises ValueError where there is none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there are no values")
    return {f"p{share}": ordered[math.ceil(share / 100 * len(ordered)) - 1] for share in shares}
