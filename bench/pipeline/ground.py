"""Common ground of the measurements: stacks, publishing, queries, percentiles.

A measurement is a module with `TITLE`, `measure`, `tables` and `draw` (see `Measurement`), named in `__main__.py`.
"""

import asyncio
import math
import shutil
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from rich.progress import Progress
from rich.table import Table

from bench.pipeline.copies import Copier, copy_id, is_copy
from bench.pipeline.corpus import TENANT, Corpus, questions_of, some, text_of
from freki.cli.show_processes import report
from freki.infra.local.children import Died, Event, NotReady, Ready, Restarting, Started
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import StackState, settings_for
from freki.infra.models import embedder_identity, open_token_counter
from freki.infra.settings import Settings
from freki.schemas import ContextQuery, ContextResult, DocumentChange, IndexOutcome, QueryId, TenantId
from freki.schemas.names import record
from freki.streams.client import Asker
from freki.streams.ingest.outline import Outliner
from freki.streams.wire.connect import open_asker, open_index, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.parsing import open_outliner
from freki.streams.wire.provision import apply_topics
from freki.streams.wire.rules import fingerprints_of

PATIENCE_S = 300.0
"""Longest wait for a receipt or an answer, in seconds."""
FEWEST_CHARACTERS = 250
"""Lower bound of the mean chunk length in characters: limits how far filling overshoots."""
UNDER_WAY = 256
"""Maximum number of documents in flight while an index is filled."""
BENCHMARK = "this benchmark (publishes, reads receipts)"
"""Name of the measuring process beside those of a stack."""
QUESTIONS_FROM = 300_000
"""Length of the documents that queries are made from, in characters: the first ones, in every index of 1,000 chunks."""

Figures = dict[str, Any]
"""JSON-serialisable results of a measurement."""
Advance = Callable[[float], None]
"""Callback that advances a progress bar."""


class Measurement(Protocol):
    """Interface of a measurement module for `__main__`."""

    @property
    def TITLE(self) -> str:  # noqa: N802 - a constant of a module
        """Heading of the measurement."""

    async def measure(self, ground: "Ground") -> Figures:
        """Run the measurement."""

    def tables(self, figures: Figures) -> list[Table]:
        """Return the figures as tables, each with a title and cells of strings."""

    def draw(self, figures: Figures, folder: Path) -> list[Path]:
        """Draw PNG files into an existing folder; their names begin with the measurement's. Matplotlib is installed."""


@record
class Ground:
    """Common parameters of the measurements of a run."""

    settings: Settings
    """Settings of the environment; no stack runs there."""
    corpus: Corpus
    sizes: tuple[int, ...]
    """Sizes of the index to measure at, in chunks, ascending."""
    copies: bool
    """Whether an index above the smallest size is filled with copies (`copies.py`)."""
    quick: bool
    """Whether the run only shows that everything works, with less of all."""
    seed: int
    keep: Path
    """Folder of named stacks, shared by the measurements of this run and, with `--keep`, by later runs."""
    progress: Progress

    @contextmanager
    def step(self, what: str, total: float) -> Iterator[Advance]:
        """Show a progress bar with the remaining time."""
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
        """Run a stack with a separate state directory: an empty one, or with a name the one kept under that name.

        Topics always start empty: the local broker keeps them in memory.
        """
        async with AsyncExitStack() as opened:
            if name:
                directory = self.keep.absolute() / name
            else:
                directory = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="freki-bench-")))
            # Stages are measured each by its process, on any machine.
            apart = {"single_worker": bool(self.settings.local.single_worker)}
            local = self.settings.local.elsewhere(directory).model_copy(update=apart)
            own = self.settings.model_copy(update={"local": local})
            pids: dict[str, int] = {}
            ready: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
            running = LocalStack(
                own,
                report=lambda event: _note(event, pids, ready),
                prepare=apply_topics,
                workers=workers,
                # Without the embedding cache, copies of documents and reverted edits cost as much as others.
                environment={"FREKI_MODELS__EMBED_CACHE_MB": "0", **(environment or {})},
            )
            with self.step("starting broker, store and workers", 1):
                stack = await opened.enter_async_context(running)
            yield Stack(settings_for(own, stack.state), stack.state, pids, ready)


def _note(event: Event, pids: dict[str, int], ready: Mapping[str, asyncio.Event]) -> None:
    if isinstance(event, Started):
        pids[event.name] = event.pid
    elif isinstance(event, Ready):
        ready[event.name].set()
    elif isinstance(event, (Died, Restarting, NotReady)):
        ready[event.name].clear()
        report(event)


@dataclass(frozen=True, slots=True)
class Stack:
    """Running stack."""

    settings: Settings
    """Settings that point at the stack."""
    state: StackState
    pids: dict[str, int]
    """Process ids by name: broker, store, and each worker; `processes` measures their usage."""
    ready: Mapping[str, asyncio.Event]
    """By name of the process: set while it is ready."""


@record
class Published:
    """Receipts of published changes."""

    seconds: float
    """Seconds from the first event to the last receipt."""
    outcomes: tuple[IndexOutcome, ...]
    """Receipts in the order of arrival."""

    @property
    def chunks(self) -> int:
        """Total number of chunks of these revisions."""
        return sum(outcome.chunks for outcome in self.outcomes)


async def publish(
    settings: Settings, changes: Iterable[DocumentChange], *, advance: Advance = lambda _: None
) -> Published:
    """Publish changes and collect their receipts, advancing by 1 for each. Raises TimeoutError after `PATIENCE_S`."""
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
    """Return the number of chunks of each live document."""
    async with open_index(settings) as index:
        return {
            root.document_id: root.chunks
            async for root in index.all_roots()
            if root.tenant == tenant and not root.deleted
        }


@asynccontextmanager
async def open_filled(ground: Ground, chunks: int) -> "AsyncIterator[Stack]":
    """Run a stack whose index holds at least this many chunks of the corpus, reused or filled now.

    Filling continues from the largest smaller index kept; above the smallest size with copies, if these are wanted.
    Measurements that publish must use another tenant than the corpus, delete their documents, and use versions above
    those of earlier runs, such as the time.
    """
    copied = ground.copies and chunks > ground.sizes[0]
    if copied:
        async with open_filled(ground, ground.sizes[0]):
            pass
    filled = _name_of_filled(ground)
    name = f"{filled}{'-copied' if copied else ''}-{chunks}"
    if not (ground.keep / name).exists():
        _go_on_from_a_smaller_one(ground.keep, filled, name, at_most=ground.sizes[0] if copied else chunks)
    async with ground.open_stack(name) as stack:
        await (copy if copied else fill)(ground, stack, chunks)
        yield stack


def _name_of_filled(ground: Ground) -> str:
    """Return a name that differs for other documents, models or limits, so that they fill another index."""
    parts = [ground.corpus.named, str(ground.corpus.seed), *sorted(fingerprints_of(ground.settings))]
    return f"filled-{sha256(repr(parts).encode()).hexdigest()[:8]}"


def _go_on_from_a_smaller_one(keep: Path, filled: str, name: str, *, at_most: int) -> None:
    """Copy the store of the largest index without copies that has at most so many chunks."""
    sizes = [found.name.removeprefix(f"{filled}-") for found in keep.glob(f"{filled}-*")]
    best = max((int(size) for size in sizes if size.isdecimal() and int(size) <= at_most), default=None)
    if best is not None:
        shutil.copytree(keep / f"{filled}-{best}" / "store", keep / name / "store")


async def copy(ground: Ground, stack: Stack, chunks: int) -> None:
    """Write copies of all documents until the tenant of the benchmark has at least this many chunks."""
    async with open_index(stack.settings) as index:
        roots = {root.document_id: root async for root in index.all_roots() if root.tenant == TENANT}
        held = sum(root.chunks for root in roots.values())
        originals = [root for root in roots.values() if not is_copy(root)]
        number = -(-chunks // sum(root.chunks for root in originals)) - 1
        copier = Copier(index, index, dim=embedder_identity(stack.settings.models)[1], seed=ground.seed)
        with ground.step(f"growing the index to {chunks:,} chunks by copies", chunks) as advance:
            advance(held)
            for root in originals:
                missing = [each for each in range(1, number + 1) if copy_id(root, each) not in roots]
                if missing and held < chunks:
                    written = await copier.copy(root, missing)
                    held += written
                    advance(written)


async def fill(ground: Ground, stack: Stack, chunks: int) -> Published:
    """Index documents of the corpus in order until the tenant of the benchmark has this many chunks.

    Indexed chunks count. The last document may exceed the number.
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
    """Yield an outliner that chunks like the stack."""
    async with open_outliner(settings, await open_token_counter(settings.models)) as opened:
        yield opened


async def questions(ground: Ground, number: int, documents: Iterable[DocumentChange] | None = None) -> list[str]:
    """Return queries that the first of these documents answer; None: those of the corpus."""
    first = some(ground.corpus.documents() if documents is None else documents, characters=QUESTIONS_FROM)
    async with outliner(ground.settings) as outline:
        chunks = [chunk for change in first for chunk in (await outline(change, text_of(change))).chunks]
    return questions_of(chunks, number, seed=ground.seed)


@record
class Asked:
    """Answer with its latency."""

    result: ContextResult
    started_s: float
    """Start by the performance counter, in seconds."""
    milliseconds: float
    """Latency from the client's call to the decoded answer, including the topics."""

    @property
    def ended_s(self) -> float:
        """End by the performance counter, in seconds."""
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
    """Run queries with `at_once` in flight; `options` are fields of ContextQuery. Returns answers in query order."""
    slots = asyncio.Semaphore(at_once)
    async with open_asker(settings) as asker:

        async def one(text: str) -> Asked:
            async with slots:
                answer = await ask_once(asker, text, tenant=tenant, **options)
                advance(1)
                return answer

        return list(await asyncio.gather(*(one(text) for text in texts)))


async def ask_once(asker: Asker, text: str, *, tenant: TenantId = TENANT, **options: Any) -> Asked:
    """Run one query; `options` are fields of ContextQuery."""
    started = time.perf_counter()
    query = ContextQuery(
        query_id=QueryId(str(uuid.uuid4())), tenant=tenant, text=text, asked_at=wall_clock(), **options
    )
    result = await asker.ask(query, patience_s=PATIENCE_S)
    return Asked(result=result, started_s=started, milliseconds=(time.perf_counter() - started) * 1000)


def percentiles(values: Iterable[float], shares: Sequence[int] = (50, 95, 99)) -> dict[str, float]:
    """Return p50, p95, p99 by the nearest-rank method. Raises ValueError without values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there are no values")
    return {f"p{share}": ordered[math.ceil(share / 100 * len(ordered)) - 1] for share in shares}
