"""Outcome of queries that arrive faster than they can be answered.

Queries arrive at random at a fixed mean rate, independent of earlier answers, with a deadline of `DEADLINE_MS` each.
A query is useful (answered in time with some hits), refused (with a reason, at almost no cost) or lost (processed, but
past its deadline). The first share `SETTLING` is not counted: the worker adapts to the load.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median

from rich.table import Table

from bench.pipeline.ground import Advance, Asked, Figures, Ground, Stack, ask, ask_once, indexed, open_filled, questions
from bench.pipeline.plots import lines, short
from bench.pipeline.query import DEADLINE_MS, lateness, reranked
from freki.schemas import ResultStatus
from freki.streams.wire.connect import open_asker

TITLE = "Overload: queries that arrive faster than they can be answered"
QUESTIONS = 600
RATES = (5, 10, 20, 40, 60)
"""Arrival rates in queries per second."""
SECONDS, QUICK_SECONDS = 15.0, 4.0
SETTLING = 0.2
WARM_UP = 32
SOME_HITS = 3


async def measure(ground: Ground) -> Figures:
    """Fill the index to each size in ascending order, and measure."""
    asked = await questions(ground, QUESTIONS)
    seconds = QUICK_SECONDS if ground.quick else SECONDS
    return {"seconds": seconds, "sizes": [await _at_size(ground, size, asked, seconds) for size in ground.sizes]}


async def _at_size(ground: Ground, size: int, asked: Sequence[str], seconds: float) -> Figures:
    async with open_filled(ground, size) as stack:
        held = await indexed(stack.settings)
        await ask(stack.settings, asked[:WARM_UP], at_once=1)
        with ground.step("queries that arrive at random", round(seconds * sum(RATES))) as advance:
            runs = []
            for rate in RATES:
                chance = random.Random(f"{ground.seed} {rate}")  # noqa: S311 - nothing secret
                texts = chance.choices(asked, k=round(rate * seconds))
                gaps_s = [chance.expovariate(rate) for _ in texts]
                answers = await _arrive(stack, list(zip(texts, gaps_s, strict=True)), advance)
                runs.append({"rate": rate, **_become(answers[round(SETTLING * len(answers)) :])})
    return {"chunks": sum(held.values()), "runs": runs}


async def _arrive(stack: Stack, asked: Iterable[tuple[str, float]], advance: Advance) -> list[Asked]:
    """Send each query after a random interval, without waiting for earlier answers."""
    async with open_asker(stack.settings) as asker, asyncio.TaskGroup() as group:
        tasks = []
        for text, gap_s in asked:
            tasks.append(group.create_task(ask_once(asker, text, deadline_ms=DEADLINE_MS)))
            advance(1)
            await asyncio.sleep(gap_s)
    return [task.result() for task in tasks]


def _become(answers: Sequence[Asked]) -> Figures:
    refused = [answer for answer in answers if answer.result.status is ResultStatus.EXPIRED]
    useful = [
        answer for answer in answers if len(answer.result.hits) >= SOME_HITS and answer.milliseconds <= DEADLINE_MS
    ]
    shares = {"useful": len(useful) / len(answers), "refused": len(refused) / len(answers)}
    return {
        "questions": len(answers),
        **shares,
        "lost": 1 - sum(shares.values()),
        **lateness(answers),
        "refused_after_ms": median(answer.milliseconds for answer in refused) if refused else None,
        "reranked": fmean(reranked(answer.result) for answer in useful) if useful else 0.0,
    }


def tables(figures: Figures) -> list[Table]:
    """Return one table per size."""
    return [_table(figures, size) for size in figures["sizes"]]


def _table(figures: Figures, size: Figures) -> Table:
    table = Table(
        title=f"With {DEADLINE_MS} ms to answer, {size['chunks']:,} chunks in the index",
        caption=f"{figures['seconds']:.0f} s per row; useful: received in time, with {SOME_HITS} hits or more; lost: "
        "neither useful nor refused; late: received late; left late: sent late; candidates: those reranked",
    )
    columns = ("arrive/s", "useful", "useful/s", "refused", "lost", "late, left late", "candidates")
    for column in columns:
        table.add_column(column, justify="right")
    for run in size["runs"]:
        table.add_row(*_row(run))
    return table


def _row(run: Figures) -> list[str]:
    after = "" if run["refused_after_ms"] is None else f" after {short(run['refused_after_ms'])} ms"
    return [
        str(run["rate"]),
        _share(run["useful"]),
        f"{run['rate'] * run['useful']:.1f}",
        _share(run["refused"]) + after,
        _share(run["lost"]),
        f"{run['late']}, {run['left_late']} of {run['questions']}",
        short(run["reranked"]),
    ]


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw useful answers by arrival rate."""
    series = {
        f"{size['chunks']:,} chunks": [(run["rate"], run["rate"] * run["useful"]) for run in size["runs"]]
        for size in figures["sizes"]
    }
    return [
        lines(
            folder / "overload.png",
            {"as many as arrive": [(rate, rate) for rate in RATES], **series},
            title=f"Useful answers within {DEADLINE_MS} ms (higher is better)",
            x="arriving queries per second",
            y="useful answers per second",
            logarithmic=(True, True),
            ticks=RATES,
        )
    ]
