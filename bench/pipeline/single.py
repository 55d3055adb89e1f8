"""Time of one document and of ten, from the first event to the last receipt, on a stack just started and later."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from statistics import fmean

from rich.table import Table

from bench.pipeline.corpus import text_of
from bench.pipeline.ground import Figures, Ground, Stack, percentiles, publish
from bench.pipeline.plots import bars
from freki.schemas import DocumentChange, DocumentId, TenantId

TITLE = "One document, ten documents: cold and warm"
CHARACTERS = 4_000
"""Length of a document in characters: about two pages."""
REPEATS, QUICK_REPEATS = 20, 3
COUNTS = (1, 10)
GOALS_S = {1: 1.0, 10: 15.0}
"""Longest time by number of documents: docs/requirements.md, I17."""
TENANT = TenantId("bench-single")


async def measure(ground: Ground) -> Figures:
    """Publish to an empty index at once when the stack is ready, then again and again, each time other documents."""
    return {
        "characters": CHARACTERS,
        "runs": [await _run(ground, number, QUICK_REPEATS if ground.quick else REPEATS) for number in COUNTS],
    }


async def _run(ground: Ground, number: int, repeats: int) -> Figures:
    documents = _documents(ground)
    async with ground.open_stack() as stack:
        cold = await _seconds(stack, list(islice(documents, number)))
        with ground.step(f"{number} at a time, warm", repeats) as advance:
            warm = []
            for _ in range(repeats):
                warm.append(await _seconds(stack, list(islice(documents, number))))
                advance(1)
    return {"documents": number, "goal_s": GOALS_S[number], "cold": cold, "warm": warm}


async def _seconds(stack: Stack, changes: Sequence[DocumentChange]) -> Figures:
    published = await publish(stack.settings, changes)
    return {"seconds": published.seconds, "chunks": published.chunks}


def _documents(ground: Ground) -> Iterator[DocumentChange]:
    """Yield documents of the corpus, cut to equal length, for ever: no two have the same text."""
    numbers = count()
    while True:
        for change in ground.corpus.documents():
            number = next(numbers)
            text = f"Document {number}\n\n{text_of(change)[:CHARACTERS]}"
            yield replace(
                change, tenant=TENANT, document_id=DocumentId(f"single-{number}"), content=text, claim=None, version=1
            )


def tables(figures: Figures) -> list[Table]:
    """Return a table with one row per number of documents."""
    table = Table(
        title=f"Documents of up to {figures['characters']:,} characters, one and ten at a time",
        caption="seconds from the first event to the last receipt; cold: the first ones after the start of the stack",
    )
    for column in ("documents", "chunks", "cold s", "warm s p50", "warm s p95", "goal s"):
        table.add_column(column, justify="right")
    for run in figures["runs"]:
        warm = percentiles([each["seconds"] for each in run["warm"]])
        chunks = fmean(each["chunks"] for each in run["warm"])
        table.add_row(
            f"{run['documents']}",
            f"{chunks:.1f}",
            f"{run['cold']['seconds']:.2f}",
            f"{warm['p50']:.2f}",
            f"{warm['p95']:.2f}",
            f"{run['goal_s']:g}",
        )
    return [table]


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw cold and warm times."""
    values = {
        name: {f"{run['documents']} documents": take(run) for run in figures["runs"]}
        for name, take in (
            ("cold", lambda run: run["cold"]["seconds"]),
            ("warm, p50", lambda run: percentiles([each["seconds"] for each in run["warm"]])["p50"]),
        )
    }
    return [bars(folder / "single-seconds.png", values, title=f"{TITLE} (lower is better)", value="seconds")]
