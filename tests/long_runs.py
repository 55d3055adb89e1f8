"""What programs that run for minutes show meanwhile."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

LOOK_EVERY_S = 0.5
SAY_EVERY_S = 30.0


@contextmanager
def status_line(console: Console) -> Iterator[Callable[[str], None]]:
    """Give what shows a line in place of the one before."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar, said_at = progress.add_task(""), time.monotonic()

        def show(line: str) -> None:
            nonlocal said_at
            progress.update(bar, description=line)
            # Where nothing can be redrawn, such as in a log, a line now and then.
            if not console.is_terminal and time.monotonic() - said_at > SAY_EVERY_S:
                said_at = time.monotonic()
                console.print(escape(line), highlight=False, soft_wrap=True)

        yield show


async def watched(work: Coroutine[None, None, None], look: Callable[[], None]) -> None:
    """Wait for work, which ends with whoever waits, and call `look` now and then."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            look()
            await asyncio.wait({task}, timeout=LOOK_EVERY_S)
    finally:
        task.cancel()
    task.result()
