"""`make chaos`: workers come and go, are killed and stand still; what must hold is checked all the while."""

import argparse
import asyncio
import secrets
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.chaos.brokers import BrokerKind
from tests.chaos.changes import CHARACTERS
from tests.chaos.plan import Kind
from tests.chaos.run import Options, Report, Run
from tests.long_runs import status_line

SHOWN = 40
console = Console()


def main() -> int:
    """Run and report; 1 where anything differs."""
    arguments = _arguments()
    console.print(f"seed {arguments.seed}, {arguments.faults} faults")
    with tempfile.TemporaryDirectory(prefix="freki-chaos-") as temporary:
        options = Options(
            seed=arguments.seed,
            faults=arguments.faults,
            wait_s=(arguments.every / 2, arguments.every * 1.5),
            directory=arguments.keep or Path(temporary),
            changes=arguments.changes,
            data=arguments.data,
            characters=arguments.characters,
            brokers=arguments.brokers,
            broker_faults=arguments.broker_faults,
        )
        with status_line(console) as show:
            faults = arguments.faults + arguments.broker_faults
            run = Run(options, lambda doing, report: show(line(doing, report, faults)))
            with suppress(asyncio.CancelledError, KeyboardInterrupt):
                asyncio.run(_until_stopped(run))
    write(run.report, arguments.seed)
    return 0 if run.report.ok else 1


async def _until_stopped(run: Run) -> None:
    """Run; SIGTERM, as `timeout` sends it, ends it like Ctrl-C: what is known by then is reported."""
    running = asyncio.ensure_future(run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await running


def line(doing: str, report: Report, faults: int) -> str:
    """Say in a line how far the run is."""
    return (
        f"{doing}: {report.faults.total()}/{faults} faults, {report.changes} changes,"
        f" {report.receipts.total()} receipts, {report.outstanding} outstanding, {report.answers}/{report.questions}"
        f" answers, {len(report.wrong)} wrong; {report.waiting}"
    )


def write(report: Report, seed: int) -> None:
    """Print the figures, then all that is not as it should be."""
    table = Table("what", "how many", title=f"seed {seed}")
    for kind in Kind:
        table.add_row(f"workers {kind}", str(report.faults[kind]))
    for broker_kind in BrokerKind:
        if count := report.faults[f"broker: {broker_kind}"]:
            table.add_row(f"broker: {broker_kind}", str(count))
    rows: dict[str, object] = {
        "workers that ended by themselves": report.endings.total(),
        "changes": f"{report.changes}, {report.recorded} of them recorded",
        "receipts": ", ".join(f"{count} {status.lower()}" for status, count in sorted(report.receipts.items())),
        "receipts before the last fault": report.during,
        "longest wait for a receipt in the end": f"{report.silence_s:.1f} s",
        "dead letters": report.dead_letters,
        "questions": report.questions,
        "answers": f"{report.answers}, {report.degraded} of them degraded, {report.hits} hits",
        "questions without an answer": report.unanswered,
        "documents in the end": f"{report.live} live, {report.deleted} deleted, {report.rows} chunk rows",
        "wrong answers": len(report.wrong),
        "differences": len(report.differences),
        "left behind": f"{len(report.left_behind)}, {report.left_of_deleted} of them of deleted documents",
        "not swept by the next change": len(report.unswept),
        "time": ", ".join(f"{doing} {seconds:.0f} s" for doing, seconds in report.took_s.items()),
    }
    for what, figure in rows.items():
        table.add_row(what, escape(str(figure)))
    console.print(table)
    for how, count in report.endings.items():
        console.print(escape(f"{count} × {how}"))
    for title, lines in (
        ("ended by itself", report.notes),
        ("wrong", report.wrong),
        ("difference", report.differences),
        ("left behind", report.left_behind),
        ("not swept", report.unswept),
    ):
        for each in lines[:SHOWN]:
            console.print(escape(f"{title}: {each}"), highlight=False, soft_wrap=True)
        if len(lines) > SHOWN:
            console.print(f"{title}: … and {len(lines) - SHOWN} more")
    if report.gave_up:
        console.print(f"[red]not finished, nothing was compared[/], {escape(report.gave_up)}", soft_wrap=True)
    else:
        console.print("[green]nothing differs[/]" if report.ok else f"[red]it differs; seed {seed}[/]")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=60, help="how many; 0: a run that must be clean")
    parser.add_argument("--seed", type=int, default=None, help="the same faults and changes again; timing differs")
    parser.add_argument("--every", type=float, default=1.5, help="mean seconds between two faults")
    parser.add_argument("--changes", type=int, default=100, help="further changes after the last fault")
    parser.add_argument("--data", type=Path, help="a .jsonl or .jsonl.zst stream, as `freki publish` takes it")
    parser.add_argument(
        "--characters",
        type=int,
        default=CHARACTERS,
        help=f"of a change with --data, on average (default: {CHARACTERS}); more take more from it, and more cores",
    )
    parser.add_argument("--brokers", type=int, default=0, help="so many of Apache Kafka; 0: the local stack's")
    parser.add_argument("--broker-faults", type=int, default=0, help="killed, stopped, cut off, full; needs --brokers")
    parser.add_argument("--keep", type=Path, help="an empty directory for logs and data, kept; default: none")
    found = parser.parse_args()
    if found.broker_faults and not found.brokers:
        parser.error("--broker-faults needs --brokers: the broker of the local stack is left alone")
    if found.seed is None:
        found.seed = secrets.randbelow(10**6)
    return found


if __name__ == "__main__":
    sys.exit(main())
