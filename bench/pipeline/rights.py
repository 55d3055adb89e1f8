"""Timing side channel: does the latency of an answer reveal documents that its client may not read?

Hidden: the same queries on the same documents, in two concurrent stacks. One of them also holds `--sizes` chunks in the
same tenant that the client may not read. Queries alternate between both, without reranking, which never sees hidden
chunks.

Cached: another client first asks half of the queries. If both may read the same documents, the reranker then has their
scores cached. If each has separate documents of the same texts, no answer may become faster.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rich.table import Table

from bench.pipeline.corpus import TENANT, some
from bench.pipeline.ground import (
    QUESTIONS_FROM,
    UNDER_WAY,
    Asked,
    Figures,
    Ground,
    Stack,
    ask_once,
    percentiles,
    publish,
    questions,
)
from bench.pipeline.plots import short
from freki.schemas import DocumentChange, DocumentId, RerankerChoice, TenantId
from freki.streams.wire.connect import open_asker

TITLE = "Rights: what latency reveals about unreadable documents"
QUESTIONS, QUICK_QUESTIONS = 300, 32
WARM_UP = 8
ASKER, OTHER = "anna", "ben"
SHARED, APART = TenantId("rights-shared"), TenantId("rights-apart")
SHARES = ("p50", "p95")


async def measure(ground: Ground) -> Figures:
    """Measure hidden chunks at each size."""
    asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS)
    return {
        "questions": len(asked),
        "hidden": [await _hidden(ground, size, asked) for size in ground.sizes],
    }


async def _hidden(ground: Ground, size: int, asked: Sequence[str]) -> Figures:
    own = list(some(ground.corpus.documents(), characters=QUESTIONS_FROM))
    async with ground.open_stack() as alone, ground.open_stack() as beside:
        for stack in (alone, beside):
            await _publish(ground, stack, _readable(own, ASKER))
        hidden = await _hide(ground, beside, islice(ground.corpus.documents(), len(own), None), size)
        with ground.step("queries to both stacks", len(asked)) as advance:
            async with open_asker(alone.settings) as to_alone, open_asker(beside.settings) as to_beside:
                answers: dict[str, list[Asked]] = {"without": [], "with": []}
                for turn, text in enumerate(asked):
                    both = [("without", to_alone), ("with", to_beside)]
                    for name, asker in both if turn % 2 else both[::-1]:
                        answer = await ask_once(asker, text, principals=(ASKER,), reranker=RerankerChoice.NONE)
                        if turn >= WARM_UP:
                            answers[name].append(answer)
                    advance(1)
    return {"chunks": hidden, **{name: _spread(answer.milliseconds for answer in answers[name]) for name in answers}}


async def _hide(ground: Ground, stack: Stack, changes: Iterator[DocumentChange], size: int) -> int:
    """Publish documents of another reader up to this many chunks; return their number."""
    hidden = 0
    while hidden < size:
        some_more = list(islice(changes, UNDER_WAY // 8))
        hidden += await _publish(ground, stack, _readable(some_more, OTHER))
    return hidden


def _readable(changes: Iterable[DocumentChange], *readers: str, tenant: TenantId = TENANT) -> Iterator[DocumentChange]:
    """Yield copies of documents for these readers; each set of readers has its own."""
    for change in changes:
        document_id = DocumentId(f"{'-'.join(readers)}/{change.document_id}")
        yield replace(change, tenant=tenant, document_id=document_id, principals=readers)


async def _publish(ground: Ground, stack: Stack, changes: Iterator[DocumentChange]) -> int:
    """Index documents; return their number of chunks."""
    documents = list(changes)
    with ground.step("filling an index", len(documents)) as advance:
        return (await publish(stack.settings, documents, advance=advance)).chunks


def _spread(values: Iterable[float]) -> dict[str, float]:
    return percentiles(values, (50, 95))


def tables(figures: Figures) -> list[Table]:
    """Return a table of both latencies, their difference and ratio."""
    hidden = Table(
        title="Query latency beside chunks that the client may not read, ms",
        caption=f"{figures['questions'] - WARM_UP} queries, alternating between two concurrent stacks",
    )
    for column in ("hidden chunks", "share", "without them", "with them", "difference", "ratio"):
        hidden.add_column(column, justify="right")
    for size in figures["hidden"]:
        for share in SHARES:
            hidden.add_row(f"{size['chunks']:,}", share, *_compared(size["without"][share], size["with"][share]))
    return [hidden]


def _compared(before: float, after: float) -> tuple[str, str, str, str]:
    ratio = f"{after / before:.2f}" if before else "–"
    return short(before), short(after), f"{after - before:+.1f}", ratio


def draw(figures: Figures, folder: Path) -> list[Path]:  # noqa: ARG001 - of all measurements
    """Draw nothing: the tables suffice."""
    return []
