"""`freki publish` and `freki watch`: publish files, folders and recorded streams as document changes."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from freki.cli.arguments import ArgumentGroup, expanded
from freki.cli.bars import bars
from freki.cli.changes import ChangeMaker, Make, gone, plan
from freki.cli.context import command, console, errors, load_settings
from freki.cli.outcomes import PATIENCE_S, collect, line, send, show_outcomes
from freki.cli.show import show_error
from freki.infra.sources import SETTLE_S, walk, watch
from freki.streams.wire.connect import open_publisher, open_receipts

Paths = Annotated[list[Path], typer.Argument(help="Files, folders, or .jsonl / .jsonl.zst streams", show_default=False)]
Tenant = Annotated[str | None, typer.Option(help="Tenant of the documents; default: FREKI_TENANT")]
Principals = Annotated[
    list[str] | None,
    typer.Option("--principal", help="User or group that may read; may be repeated; default: everyone"),
]


@dataclass(frozen=True, kw_only=True)
class PublishArguments(ArgumentGroup):
    """Options of `freki publish`."""

    wait: Annotated[bool, typer.Option("--wait", help="Wait for the receipt of each change")] = False
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose file is missing in the folders")] = (
        False
    )
    priority: Annotated[int, typer.Option(help="Above 0: overtakes waiting changes; higher is indexed first")] = 0
    urgent: Annotated[bool, typer.Option("--urgent", help="The same as --priority 1")] = False
    tenant: Tenant = None
    principal: Principals = None
    patience: Annotated[float, typer.Option(help="With --wait: give up after this many seconds without a receipt")] = (
        PATIENCE_S
    )


@command
@expanded
async def publish(paths: Paths, *, given: PublishArguments) -> None:
    """Publish files, folders and recorded streams as document changes."""
    settings = load_settings()
    maker = ChangeMaker(settings, given.tenant, given.principal, max(given.priority, int(given.urgent)))
    total, changes = plan(paths, maker)
    pruned = await gone(settings, maker, paths) if given.prune else []
    total += len(pruned)
    async with AsyncExitStack() as opened:
        # Open before the first change is sent, so that no receipt is missed.
        receipts = await opened.enter_async_context(open_receipts(settings)) if given.wait else None
        publisher = await opened.enter_async_context(open_publisher(settings))
        with bars() as progress:
            sent = await send(publisher, receipts, chain(pruned, changes), total=total, progress=progress)
            outcomes = (
                await collect(receipts, total=sent, progress=progress, patience_s=given.patience) if receipts else []
            )
    if receipts is None:
        console.print(f"Published {sent} changes. Use --wait to see their receipts.")
    elif not show_outcomes(outcomes, missing=sent - len(outcomes)):
        raise typer.Exit(1)
    if sent < total:
        raise typer.Exit(1)


@command
async def watch_folder(
    directory: Annotated[Path, typer.Argument(help="Folder to watch")],
    *,
    settle: Annotated[
        float, typer.Option(help="Seconds without modification before a file is published", min=0.0)
    ] = SETTLE_S,
    poll: Annotated[
        float | None,
        typer.Option(
            help="Compare the folder at this interval in seconds, for disks shared with other machines", min=0.1
        ),
    ] = None,
    tenant: Tenant = None,
    principal: Principals = None,
) -> None:
    """Publish a folder, then each file created, modified or removed in it, until Ctrl-C."""
    settings = load_settings()
    maker = ChangeMaker(settings, tenant, principal, priority=0)
    async with open_receipts(settings) as receipts, open_publisher(settings) as publisher:
        files = list(walk([directory]))
        pruned = await gone(settings, maker, [directory])
        total = len(files) + len(pruned)
        changes: Iterable[Make] = [*pruned, *(partial(maker.upsert, directory, file) for file in files)]
        with bars() as progress:
            sent = await send(publisher, receipts, changes, total=total, progress=progress)
            outcomes = await collect(receipts, total=sent, progress=progress, patience_s=PATIENCE_S)
        show_outcomes(outcomes, missing=sent - len(outcomes))
        console.print(f"Watching {directory}. Ctrl-C stops.")
        async for events in watch(directory, known=files, settle_s=settle, poll_s=poll):
            made = [partial(maker.event, directory, event) for event in events]
            with bars() as progress:
                sent = await send(publisher, receipts, made, total=len(made), progress=progress)
                outcomes = await collect(receipts, total=sent, progress=progress, patience_s=PATIENCE_S)
            for outcome in outcomes:
                console.print(line(outcome))
            if len(outcomes) < sent:
                show_error(errors, f"{sent - len(outcomes)} changes have no outcome yet: do workers run?")
