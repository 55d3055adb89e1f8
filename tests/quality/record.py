"""Measures and records: `python -m tests.quality.record`. Look at the difference before you commit it."""

import asyncio

from rich.console import Console

from tests.quality.gate import RECORDED, SETS, Recorded, SetFigures, contents_of, figures_of, write_recorded
from tests.quality.pipeline import measure


async def main() -> None:
    """Ask the questions of every set, and keep the figures."""
    measured = await measure(SETS)
    sets = {
        each.name: SetFigures(
            contents=contents_of(each),
            runs={title: figures_of(run) for title, run in measured.runs[each.name].items()},
        )
        for each in SETS
    }
    write_recorded(Recorded(made_with=measured.made_with, sets=sets))
    for name, kept in sets.items():
        for title, run in kept.runs.items():
            Console().print(f"{name}, {title}:", dict(run.figures))
    Console().print(f"written to {RECORDED}")


if __name__ == "__main__":
    asyncio.run(main())
