"""`freki generations`: fill another index beside the one that answers, compare both, change over, and remove one."""

import asyncio
import math
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from freki.cli.arguments import not_empty
from freki.cli.bars import bars
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.rows import AsJson, Rows
from freki.cli.show import building, show_error
from freki.cli.slow import message_if_slow
from freki.cli.terminal import ignoring_output_errors
from freki.cli.until_passed import STAGES, until_passed
from freki.cli.words import counted
from freki.client.tasks import cancel_and_wait
from freki.infra.local.children import ChildSpec, Died, Event
from freki.infra.local.specs import MISCONFIGURED, WORKER_READY_TIMEOUT_S, WORKER_STOP_TIMEOUT_S
from freki.infra.local.state import StackState, environment_for, locked_generation, read_stack
from freki.infra.local.supervise import Supervisor
from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.models import ensure_built
from freki.infra.settings import Settings
from freki.infra.settings.milvus import MilvusSettings
from freki.schemas import ContextQuery, QueryId, RequestKind, TenantId
from freki.schemas.index import GenerationEntry, Statistics, offered, serving
from freki.streams.client import Asker
from freki.streams.wire.connect import open_asker, open_generations, open_index
from freki.streams.wire.from_settings import settings_named, wall_clock
from freki.streams.wire.generations import Waiting, check_unfilled, read_again, remove_generation, waiting_of
from freki.streams.wire.provision import apply_own_topics
from freki.streams.wire.serving import entry_of, serving_entry

generations_app = typer.Typer(help="Generations of the index: fill another one, compare, switch.", no_args_is_help=True)

NICENESS = 10
"""Priority of the process that fills, so that answers keep their time; 0 is normal, 19 the lowest."""
PROBE = "generations-"
"""Beginning of the ids of queries that these commands ask."""
PROBES = 24
"""Queries that show whether all workers follow a switch."""
SEEN_S = 1.0
"""Time within which workers see a switch, in seconds."""
FOLLOW_S = 10.0
"""Wait for all workers to follow a switch, in seconds."""
AGAIN_S = 0.2
"""Wait before workers are asked again, in seconds."""

Name = Annotated[
    str, typer.Argument(help="Name of a generation, as `freki generations list` shows it", callback=not_empty)
]


@generations_app.command("list")
@command
async def list_generations(*, as_json: AsJson = False) -> None:
    """List the generations in the store, their size, what they lack, and which one answers."""
    settings = load_settings()
    numbers = ("documents", "chunks", "records_waiting")
    rows = Rows("generation", "answers", *numbers, "embedder", "analyser", as_json=as_json, numbers=numbers)
    with message_if_slow("reading sizes and lag of the generations"):
        await _add_rows(rows, settings)
    rows.end(nothing="no generation yet: `freki up` makes the first one")


async def _add_rows(rows: Rows, settings: Settings) -> None:
    async with open_generations(settings) as log:
        last = serving(await log.entries())
        for name, made_for in (await log.stored()).items():
            sizes, waiting = await log.sizes(name), await waiting_of(settings_named(settings, name))
            rows.add(
                {
                    "generation": name,
                    "answers": last is not None and last.generation == name,
                    "documents": sizes.documents,
                    "chunks": sizes.chunks,
                    "records_waiting": waiting.records,
                    "embedder": made_for.get("embedder"),
                    "analyser": made_for.get("analyser"),
                }
            )


@generations_app.command("create")
@command
async def create(
    name: Annotated[str, typer.Argument(help="Name of the new generation, such as g2")],
    *,
    once: Annotated[bool, typer.Option("--once", help="End when it holds what the topic held at the start")] = False,
) -> None:
    """Fill a generation from the topic of documents, with the settings of this command, and keep it up to date.

    It may be ended and started again at any time. After a switch, give the workers the same settings and
    FREKI_MILVUS__GENERATION=NAME; then they keep it up to date.
    """
    own = load_settings()
    settings = _named(own, name)
    async with _alone(settings) as hold:
        with message_if_slow(f"creating topics and collections of {name}"):
            await _begin(settings, filled=own.milvus.generation)
        await _fill(settings, hold, once=once)


async def _fill(settings: Settings, hold: Sequence[int], *, once: bool) -> None:
    """Fill a generation, once or until it is ended; hold: locks that last as long as what fills it."""
    name = settings.milvus.generation
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with _filling(settings, hold) as worker:
        full = asyncio.create_task(_until_full(settings))
        stopped = asyncio.create_task(ended.wait())
        failed = asyncio.create_task(worker.failed())
        await asyncio.wait({full, stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        if full.done():
            held, seconds = full.result()
            console.print(
                f"{name} holds {counted(held.documents, 'document')}, {counted(held.chunks, 'chunk')}, "
                f"after {seconds:.0f} s."
            )
            if not once:
                console.print(
                    f"It is kept up to date until Ctrl-C. In another terminal: freki generations compare OTHER {name},"
                    f" then freki generations switch {name}."
                )
                await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_wait((full, stopped, failed))
        if failed.done() and not failed.cancelled():
            failed.result()
    if not full.done() or full.cancelled():
        console.print(f"{name} is not complete; the same command goes on where this one ended")
        raise typer.Exit(1)


@generations_app.command("switch")
@command
async def switch(
    name: Name,
    *,
    force: Annotated[bool, typer.Option("--force", help="Also to one that still lacks changes")] = False,
) -> None:
    """Answer from another generation from now on; every worker follows within a second, without a restart."""
    settings = load_settings()
    async with AsyncExitStack() as opened:
        with message_if_slow(f"asking store and broker what {name} lacks"):
            log = await opened.enter_async_context(open_generations(settings))
            asker = await opened.enter_async_context(open_asker(settings))
            last, entry = await known(log, settings, name)
            waiting = await waiting_of(settings_named(settings, name))
        if last is not None and last.generation == name:
            console.print(f"{name} answers already")
            return
        if waiting.is_late and not force:
            age = "" if waiting.oldest_s == math.inf else f", one of them for {waiting.oldest_s:,.0f} s"
            fail(
                f"{counted(waiting.records, 'record')} waiting for {name}{age}: let what fills it catch up, workers "
                f"with FREKI_MILVUS__GENERATION={name} or `freki generations create {name}`, or switch with --force"
            )
        await log.append(serving_entry(entry, last))
        with message_if_slow(f"{name} answers from now on; asking until every worker follows"):
            followed = await _followed(asker, settings, name)
    if followed.missing:
        fail(
            f"{name} answers from now on, but {FOLLOW_S:.0f} s later {followed}: a worker is not running, is busy, or"
            " its log says why it cannot open the generation; `freki status` shows workers"
        )
    console.print(f"{name} answers: {PROBES} of {PROBES} probes after {followed.seconds:.1f} s")


@generations_app.command("drop")
@command
async def drop(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not only say what would be removed")] = False,
) -> None:
    """Remove a generation: its collections, and the topics that only it has."""
    settings = _named(load_settings(), name)
    async with open_generations(settings) as log:
        with message_if_slow(f"asking the store for {name}"):
            last, _ = await known(log, settings, name)
            if last is not None and last.generation == name:
                fail(f"{name} answers queries: switch to another generation first")
            held = await log.sizes(name)
        what = f"{name}: {counted(held.documents, 'document')}, {counted(held.chunks, 'chunk')}"
        if not yes:
            fail(f"{what} would be removed; end what fills it, then say --yes")
        # Also of what has begun to fill it and does not read yet, so that the broker cannot tell.
        async with _alone(settings):
            with message_if_slow(f"removing {name}, once workers have closed it"):
                await remove_generation(log, settings)
    console.print(f"removed {what}")


def _named(settings: Settings, name: str) -> Settings:
    try:
        MilvusSettings(generation=name)
    except ValueError:
        fail(f"a generation cannot be named {name!r}: 1 to 32 of a to z, 0 to 9 and _", code=2)
    return settings_named(settings, name)


async def known(
    log: MilvusGenerations, settings: Settings, name: str
) -> tuple[GenerationEntry | None, GenerationEntry]:
    """Return what answers, and the last entry of a generation; end the command if the store does not have it."""
    entries, stored = await log.entries(), await log.stored()
    if name not in stored:
        fail(f"there is no generation {name}; the store has {', '.join(stored) or 'none'}")
    entry = offered(entries).get(name) or entry_of(settings_named(settings, name), serves=False)
    return serving(entries), entry


async def _begin(settings: Settings, *, filled: str) -> None:
    """Create the topics and collections of a generation, and tell the workers that answer to open it.

    filled: name of the generation that the workers keep up to date.
    """
    name = settings.milvus.generation
    async with open_generations(settings) as log:
        entries, stored = await log.entries(), await log.stored()
        last = serving(entries)
        if last is not None and last.generation == name == filled:
            fail(f"{name} answers queries, and the workers keep it up to date: give the new generation another name")
        await apply_own_topics(settings)
        if name not in stored:
            await read_again(settings)
        with building() as progress:
            await ensure_built(settings.models, progress)
        async with open_index(settings, creates=True):
            pass
        entry = entry_of(settings, serves=False)
        before = offered(entries).get(name)
        if before is None or before.settings != entry.settings:
            await log.append(entry)


@asynccontextmanager
async def _alone(settings: Settings) -> AsyncIterator[Sequence[int]]:
    """Let no other command fill or remove the generation meanwhile; yield the lock, if any.

    Raises Rejected where one does, or a worker.
    """
    stack = _local_stack(settings)
    if stack is None:
        # Its broker tells who reads, also on other machines, but not in the seconds until a worker has begun.
        await check_unfilled(settings)
        yield ()
        return
    # Its broker takes a killed worker for one that reads.
    async with locked_generation(stack.directory / "run", settings.milvus.generation) as descriptor:
        yield (descriptor,)


def _local_stack(settings: Settings) -> StackState | None:
    """Return the local stack that the settings name; None where they name other servers."""
    stack = read_stack(settings.local.state_dir.expanduser().absolute())
    return stack if stack is not None and stack.bootstrap == settings.kafka.bootstrap else None


@asynccontextmanager
async def _filling(settings: Settings, hold: Sequence[int]) -> AsyncIterator[Supervisor]:
    """Run a worker that fills the generation; hold: descriptors that stay open until its last process ends."""
    name = settings.milvus.generation
    stack = _local_stack(settings)
    environment = {
        **(environment_for(settings, stack) if stack is not None else {}),
        "FREKI_MILVUS__GENERATION": name,
        "FREKI_TELEMETRY__HTTP_PORT": "0",
    }
    with tempfile.TemporaryDirectory(prefix="freki-") as temporary:
        directory = Path(temporary) if stack is None else stack.directory
        for folder in ("logs", "run"):
            (directory / folder).mkdir(exist_ok=True)
        spec = ChildSpec(
            name=f"fill-{name}",
            command=(sys.executable, "-m", "freki", "worker", *STAGES),
            ready=directory / "run" / f"fill-{name}.ready",
            env=environment,
            ready_timeout_s=WORKER_READY_TIMEOUT_S,
            stop_timeout_s=WORKER_STOP_TIMEOUT_S,
            final_statuses=MISCONFIGURED,
        )
        async with Supervisor([spec], log_dir=directory / "logs", report=_report, hold=hold) as worker:
            yield worker


def _report(event: Event) -> None:
    if not isinstance(event, Died):
        return
    with ignoring_output_errors(errors):
        show_error(errors, f"{event.name} died ({event.how}) and is started again")
        for line in event.last_lines:
            errors.print(Text(f"  {line}", style="dim"))


async def _until_full(settings: Settings) -> tuple[Statistics, float]:
    """Show the progress of filling; return the size, and the seconds that it took, once it has caught up."""
    loop, name = asyncio.get_running_loop(), settings.milvus.generation
    started_s = loop.time()
    async with open_generations(settings) as log:
        last = serving(await log.entries())
        with bars() as progress:
            bar = progress.add_task(f"documents in {name}", total=None)

            async def look() -> Waiting:
                total = (await log.sizes(last.generation)).documents if last else None
                progress.update(bar, completed=(await log.sizes(name)).documents, total=total)
                return await waiting_of(settings)

            await until_passed(look)
            return await log.sizes(name), loop.time() - started_s


class SwitchProgress(NamedTuple):
    """Which of the last probes came from the generation that was switched to."""

    seconds: float
    """Time since the switch."""
    others: int
    """Probes that another generation answered."""
    unanswered: int

    @property
    def missing(self) -> int:
        """Probes that did not come from it."""
        return self.others + self.unanswered

    def __str__(self) -> str:
        found = {"came from another generation": self.others, "had no answer": self.unanswered}
        return " and ".join(f"{number} of {PROBES} probes {what}" for what, number in found.items() if number)


async def _followed(asker: Asker, settings: Settings, name: str) -> SwitchProgress:
    """Ask until all probes are answered from a generation, or the time for that is over."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    while True:
        spent_s = loop.time() - started_s
        # It breaks a rule, which a worker says from the generation that it answers by, without store and models: real
        # queries would wait behind others, and those of people behind them. No ratio of the alerts counts it.
        probes = [probe(settings, "", kind=RequestKind.CHUNK_READ) for _ in range(PROBES)]
        results = await asyncio.gather(
            *(asker.ask(probe, patience_s=max(FOLLOW_S - spent_s, SEEN_S)) for probe in probes), return_exceptions=True
        )
        answered = [result for result in results if not isinstance(result, BaseException)]
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, TimeoutError):
                raise error
        others = sum(result.generation != name for result in answered)
        followed = SwitchProgress(seconds=loop.time() - started_s, others=others, unanswered=PROBES - len(answered))
        if not followed.missing and spent_s >= SEEN_S:
            return followed
        if followed.missing and followed.seconds >= FOLLOW_S:
            return followed
        # A worker that has just started may look at the log last of all.
        await asyncio.sleep(AGAIN_S if followed.missing else max(0.0, SEEN_S - followed.seconds))


def probe(settings: Settings, text: str, **options: Any) -> ContextQuery:  # noqa: ANN401 - fields of a query
    """Return a query of the command line's tenant that later comparisons leave out."""
    return ContextQuery(
        query_id=probe_id(), tenant=TenantId(settings.tenant), text=text, asked_at=wall_clock(), **options
    )


def probe_id() -> QueryId:
    """Return an id for such a query."""
    return QueryId(f"{PROBE}{uuid.uuid4()}")
