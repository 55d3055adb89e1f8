"""`make rights`: thousands of random operations, and after each what every user may see."""

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.long_runs import status_line
from tests.rights.run import Options, Report, Run

SHOWN = 20
console = Console()


def main() -> int:
    """Run and report; 1 where anybody saw what is not hers."""
    parser = argparse.ArgumentParser(prog="python -m tests.rights", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="the same operations again")
    parser.add_argument("--replay-window", action="store_true", help="each token serves one query")
    parser.add_argument("--keep", type=Path, help="an empty directory for logs and data, kept; default: none")
    given = parser.parse_args()
    console.print(f"seed {given.seed}, {given.operations} operations")
    with tempfile.TemporaryDirectory(prefix="freki-rights-") as temporary:
        options = Options(
            seed=given.seed,
            operations=given.operations,
            directory=given.keep or Path(temporary),
            replay_window=given.replay_window,
        )
        with status_line(console) as show:
            run = Run(options, lambda doing, report: show(line(doing, report, given.operations)))
            report = asyncio.run(run())
    write(report, given.seed)
    return 1 if report.wrong else 0


def line(doing: str, report: Report, operations: int) -> str:
    """Say in a line how far the run is."""
    return f"{doing}: {report.done.total()} of {operations} operations, {len(report.wrong)} wrong"


def write(report: Report, seed: int) -> None:
    """Print the figures, then all that is not as it should be."""
    table = Table("what", "how many", title=f"seed {seed}")
    for counted in (report.done, report.seen):
        for what, count in sorted(counted.items()):
            table.add_row(what, str(count))
    for what, figure in {
        "hits": report.hits,
        "questions without an answer": report.unanswered,
        "answers compared with and without hidden documents": report.compared,
        "median time of an answer, hidden documents fit": f"{report.hidden_ms:.0f} ms",
        "median time of an answer, no document fits": f"{report.absent_ms:.0f} ms",
        "files searched for text, questions and tokens": report.searched,
        "wrong": len(report.wrong),
    }.items():
        table.add_row(what, str(figure))
    console.print(table)
    for each in report.wrong[:SHOWN]:
        console.print(escape(f"wrong: {each}"), highlight=False, soft_wrap=True)
    console.print("[red]somebody saw what is not hers[/]" if report.wrong else "[green]nobody saw what is not hers[/]")


if __name__ == "__main__":
    sys.exit(main())
