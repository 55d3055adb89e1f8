"""`make demo`: run the whole pipeline on sample documents on this machine."""

import os
import sys
import tempfile
import time
import uuid
from importlib.resources import as_file, files
from pathlib import Path

import typer
from rich.rule import Rule

from freki.cli.bars import bars
from freki.cli.changes import FileArguments, open_source, upserts
from freki.cli.context import command, console
from freki.cli.receipts import collect, send, show_receipts
from freki.cli.show import building, show_result
from freki.cli.show_processes import report
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.models import ensure_built
from freki.infra.settings import Settings
from freki.infra.sources import walk
from freki.schemas import ContextQuery, QueryId, TenantId
from freki.streams.wire.connect import open_asker, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.provision import apply_topics

QUESTIONS = (
    "Welche Pflichten hat der Vermieter nach § 535 BGB?",
    "Wo hat Peter Kühne gearbeitet?",
    "How do I restore the service after a failed deployment?",
)
PATIENCE_S = 120.0
"""Longest wait for a receipt or an answer, in seconds."""


@command
async def demo() -> None:
    """Build models, start broker, store and workers, publish the samples, ask three queries, stop."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="freki-demo-") as directory:
        settings = Settings(local=Settings().local.elsewhere(Path(directory)), folders=())
        console.print(Rule("1  Models"))
        with building() as progress:
            await ensure_built(settings.models, progress)
        console.print(f"{settings.models.embedder} is in {settings.models.cache_dir.expanduser()}")
        console.print(Rule("2  Broker, store and workers"))
        async with LocalStack(settings, report=report, prepare=apply_topics) as stack:
            here = settings_for(settings, stack.state)
            console.print(Rule("3  Documents"))
            with as_file(files("freki") / "samples") as samples:
                await _publish(here, samples)
            console.print(Rule("4  Questions"))
            for question in QUESTIONS:
                await _ask(here, question)
            console.print(Rule("5  Stop"))
    program = _program()
    console.print(f"Done in {time.monotonic() - started:.0f} s. Next:")
    for line in next_steps(program, settings):
        console.print(f"  {line}", highlight=False, soft_wrap=True)


def next_steps(program: str, settings: Settings) -> list[str]:
    """Return the commands that start Freki and open the page; the demo itself is stopped."""
    page = f"http://{settings.serve.host}:{settings.serve.port}/"
    return [
        f"{program} up                         # in one terminal: broker, store and workers",
        f"{program} publish FOLDER --wait      # in another: your documents",
        f"{program} serve                      # the page: open {page} in a browser",
        f"{program} --help                     # all commands",
    ]


def _program() -> str:
    """Return the path of `freki` in this environment, relative to the current directory."""
    return os.path.relpath(Path(sys.executable).with_name("freki"))


async def _publish(settings: Settings, samples: Path) -> None:
    files, arguments = list(walk([samples])), FileArguments()
    async with (
        open_receipts(settings) as receipts,
        open_publisher(settings) as publisher,
        open_source(settings, arguments, arguments.fields(settings)) as source,
    ):
        changes = upserts(source, files, settings)
        with bars() as progress:
            sent = await send(publisher, receipts, changes, total=len(files), progress=progress, record=source.record)
            outcomes = await collect(receipts, total=sent.changes, progress=progress, patience_s=PATIENCE_S)
    show_receipts(outcomes, missing=sent.changes - len(outcomes))


async def _ask(settings: Settings, question: str) -> None:
    async with open_asker(settings) as asker:
        query = ContextQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=TenantId(settings.tenant),
            text=question,
            asked_at=wall_clock(),
            top_k=3,
        )
        show_result(console, await asker.ask(query, patience_s=PATIENCE_S), question=question)


if __name__ == "__main__":
    typer.run(demo)
