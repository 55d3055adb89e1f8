"""`freki up`: the local stack."""

import asyncio
from typing import Annotated

import typer

from freki.cli.context import command, console, load_settings
from freki.cli.show import building
from freki.cli.show_processes import report
from freki.cli.terminal import ignoring_output_errors
from freki.infra.local import apache_kafka
from freki.infra.local import stack as local
from freki.infra.local.state import StackState
from freki.infra.models import ensure_built
from freki.infra.settings import Settings
from freki.streams.wire.provision import apply_topics
from freki.streams.wire.serving import leave_unreadable


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
    with ignoring_output_errors(console):
        console.print("stopped")
