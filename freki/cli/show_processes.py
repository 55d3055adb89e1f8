"""What is printed of the processes of a local stack."""

import signal

from rich.text import Text

from freki.cli.context import console
from freki.cli.terminal import ignoring_output_errors
from freki.infra.local.children import Died, Event, NotReady, Ready, Restarting, Started, Stopped


def report(event: Event) -> None:
    """Print an event of a child process. Raises nothing: else a log pipe that ended would end the processes."""
    with ignoring_output_errors(console):
        _print(event)


def _print(event: Event) -> None:
    match event:
        case Started(name=name, pid=pid):
            console.print(f"[dim]{name}: started, process {pid}[/]")
        case Ready(name=name, after_s=after_s):
            console.print(f"{name}: ready after {after_s:.1f} s")
        case NotReady(name=name, reason=reason):
            console.print(f"[yellow]{name}: not ready: {reason}[/]")
        case Died(name=name, returncode=code, lasted_s=lasted_s, last_lines=lines, loss=loss):
            how = f"killed by signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            console.print(f"[red]{name}: died after {lasted_s:.0f} s, {how}[/]")
            for line in lines:
                console.print(Text(f"  {line}", style="dim"))
            if loss:
                console.print(f"[red]{name}: lost {loss}[/]")
        case Restarting(name=name, in_s=in_s):
            console.print(f"[yellow]{name}: restarting in {in_s:.1f} s[/]")
        case Stopped(name=name):
            console.print(f"[dim]{name}: stopped[/]")
