"""Commands for operators: up, worker, topics, models."""

import asyncio
import signal
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from freki.cli.context import command, console, fail, load_settings, of_local_stack, read_or_exit
from freki.cli.export_model import models_export
from freki.cli.reloading import on_hangup, source_of
from freki.cli.rows import AsJson, Rows
from freki.cli.show import building
from freki.infra.kafka import Admin
from freki.infra.local import apache_kafka
from freki.infra.local import stack as local
from freki.infra.local.children import Died, Event, Ready, Restarting, Started, Stopped, Unready
from freki.infra.local.state import StackState
from freki.infra.models import check_models, describe_models, ensure_built
from freki.infra.settings import Settings
from freki.streams.app import STAGES
from freki.streams.wire.acls import acl_lines, rights_of
from freki.streams.wire.connect import apply_topics
from freki.streams.wire.from_settings import ERASE, topics_of
from freki.streams.wire.serving import leave_unreadable
from freki.streams.worker import UNUSED, run_worker

topics_app = typer.Typer(help="Topics that Freki needs.", no_args_is_help=True)
models_app = typer.Typer(help="Models that Freki runs.", no_args_is_help=True)
models_app.command("export")(models_export)


@command
async def up(
    *,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Run Apache Kafka, whose topics survive a restart; needs Java and Maven")
    ] = False,
) -> None:
    """Run broker, store and workers on this machine until Ctrl-C."""
    settings = load_settings()
    if kafka:
        settings = settings.model_copy(update={"local": settings.local.model_copy(update={"broker": "kafka"})})
    if settings.local.broker == "kafka" and not apache_kafka.are_here() and settings.local.kafka_libs is None:
        with console.status(f"Fetching Apache Kafka {apache_kafka.VERSION} from Maven Central"):
            await asyncio.to_thread(apache_kafka.libraries)
    with building() as progress:
        await ensure_built(settings.models, progress)

    def on_ready(state: StackState) -> None:
        console.print(f"[green]ready[/]  broker {state.bootstrap}  store {state.milvus_uri}  state {state.directory}")
        console.print('In another terminal: freki publish PATH --wait, then freki ask "…". Ctrl-C stops all.')

    async def prepare_store(found: Settings) -> None:
        if (left := await leave_unreadable(found)) is not None:
            console.print(f"[yellow]{left}; {found.milvus.generation} answers from now on[/]")

    await local.up(settings, on_ready=on_ready, report=report, prepare=apply_topics, prepare_store=prepare_store)
    console.print("stopped")


def report(event: Event) -> None:
    """Print an event of a child process."""
    match event:
        case Started(name=name, pid=pid):
            console.print(f"[dim]{name}: started, process {pid}[/]")
        case Ready(name=name, after_s=after_s):
            console.print(f"{name}: ready after {after_s:.1f} s")
        case Unready(name=name, reason=reason):
            console.print(f"[yellow]{name}: not ready: {reason}[/]")
        case Died(name=name, returncode=code, lasted_s=lasted_s, last_lines=lines):
            how = f"killed by signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            console.print(f"[red]{name}: died after {lasted_s:.0f} s, {how}[/]")
            for line in lines:
                console.print(Text(f"  {line}", style="dim"))
        case Restarting(name=name, in_s=in_s):
            console.print(f"[yellow]{name}: restarting in {in_s:.1f} s[/]")
        case Stopped(name=name):
            console.print(f"[dim]{name}: stopped[/]")


@command
async def worker(
    stages: Annotated[
        list[str] | None,
        typer.Argument(help=f"Of {', '.join(STAGES)}; default: all, erase only with FREKI_ERASURE__ENABLED"),
    ] = None,
) -> None:
    """Run stages in this process until SIGTERM or Ctrl-C."""
    settings = load_settings()
    names = stages or [name for name in STAGES if name != ERASE or settings.erasure.enabled]
    if unknown := [name for name in names if name not in STAGES]:
        fail(f"there is no stage {unknown[0]!r}; choose from {', '.join(STAGES)}", code=2)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    read = read_or_exit()
    source = source_of(read, Settings.model_fields.keys() - UNUSED)
    await run_worker(of_local_stack(read), names, stop, source=source, on_hangup=on_hangup)


@topics_app.command("list")
@command
async def topics_list(*, as_json: AsJson = False) -> None:
    """List the topics and their differences from the declaration."""
    settings = load_settings()
    topics = list(topics_of(settings))
    async with Admin(settings.kafka) as admin:
        states = await admin.describe([topic.name for topic in topics])
    numbers = ("partitions", "largest_record")
    rows = Rows("topic", "partitions", "cleanup", "largest_record", "state", as_json=as_json, numbers=numbers)
    for topic, state in zip(topics, states, strict=True):
        missing = ["missing: `freki topics apply` creates it"]
        differences = state.differences(topic) if state.partitions else missing
        rows.add(
            {
                "topic": topic.name,
                "partitions": topic.partitions,
                "cleanup": topic.cleanup,
                "largest_record": topic.max_message_bytes,
                "state": "; ".join(differences) or "as declared",
            }
        )
    rows.end(nothing="no topics are declared")


@topics_app.command("apply")
@command
async def topics_apply(
    tenant: Annotated[
        list[str] | None, typer.Option(help="With FREKI_AUTH__REPLY_TOPIC: also the topic of its answers; repeatable")
    ] = None,
) -> None:
    """Create the missing topics; existing topics stay unchanged."""
    created = await apply_topics(_with_reply_topics(load_settings(), tenant), tenants=tenant or ())
    console.print("created " + ", ".join(created) if created else "all topics are there")


@topics_app.command("acls")
@command
async def topics_acls(
    part: Annotated[list[str] | None, typer.Argument(help="Stages and commands; default: all")] = None,
    *,
    principal: Annotated[
        str | None, typer.Option(help="Print kafka-acls.sh lines that grant these rights, as to User:freki-embed")
    ] = None,
    command_config: Annotated[
        str | None, typer.Option(help="Properties file with the login of kafka-acls.sh, for these lines")
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(help="With FREKI_AUTH__REPLY_TOPIC: also for the topic of its answers; repeatable"),
    ] = None,
) -> None:
    """List the Kafka rights that each part of Freki needs under these settings; no part uses others."""
    settings = _with_reply_topics(load_settings(), tenant)
    rights = rights_of(settings, tenants=tenant or ())
    if unknown := [name for name in part or () if name not in rights]:
        fail(f"there is no part {unknown[0]!r}; choose from {', '.join(rights)}", code=2)
    chosen = {name: rights[name] for name in part or rights}
    if principal is not None:
        for line in acl_lines(chosen.values(), principal, bootstrap=settings.kafka.bootstrap, login=command_config):
            console.print(Text(line), soft_wrap=True)
        return
    table = Table("part", "resource", "name", "operations")
    for name, needed in chosen.items():
        for number, right in enumerate(needed):
            table.add_row("" if number else name, right.resource, right.name, ", ".join(right.operations))
    console.print(table)


def _with_reply_topics(settings: Settings, tenants: list[str] | None) -> Settings:
    if tenants and settings.auth.reply_topic is None:
        fail("--tenant: all tenants share a topic for answers; set FREKI_AUTH__REPLY_TOPIC, or leave it out", code=2)
    return settings


@models_app.command("list")
def models_list(*, as_json: AsJson = False) -> None:
    """List the available models."""
    rows = Rows(
        "model", "kind", "dim", "state", "size_bytes", "licence", as_json=as_json, numbers=("dim", "size_bytes")
    )
    for model in describe_models(load_settings().models):
        row = {
            "model": model.name,
            "kind": model.kind,
            "dim": model.dim,
            "state": model.state,
            "size_bytes": model.size_bytes or None,
            "licence": model.licence,
        }
        rows.add(row, size_bytes=f"{model.size_bytes / 1e6:.0f} MB" if model.size_bytes else "–")
    rows.end(nothing="no models are known")


@models_app.command("build")
@command
async def models_build() -> None:
    """Build the configured models into the cache if they are missing."""
    with building() as progress:
        await ensure_built(load_settings().models, progress)
    console.print("models are built")


@models_app.command("check")
@command
async def models_check() -> None:
    """Run known texts through the configured models and compare the results with expected values."""
    checks = await check_models(load_settings().models)
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]wrong[/]"
        console.print(f"{mark}  {check.name}  {check.tokens_per_s:.0f} tokens/s  {check.message}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
