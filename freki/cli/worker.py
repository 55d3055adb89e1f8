"""`freki worker`: stages in this process."""

import asyncio
import signal
from typing import Annotated

import typer

from freki.cli.context import command, fail, load_settings, of_local_stack, read_or_exit
from freki.cli.reloading import on_hangup, source_of
from freki.streams.app import STAGES
from freki.streams.wire.from_settings import ERASE
from freki.streams.worker import run_worker, sections_of


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
    source = source_of(read, sections_of(names))
    await run_worker(of_local_stack(read), names, stop, source=source, on_hangup=on_hangup)
