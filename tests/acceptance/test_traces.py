"""A trace through real processes, one of which is killed on the way."""

import asyncio
from collections.abc import Callable, Sequence

from opentelemetry.trace import format_trace_id

from freki.infra.telemetry.trace_files import SpanRecord, read_trace
from freki.infra.telemetry.traces import tracing
from freki.schemas import OutcomeStatus
from freki.streams.wire.connect import open_publisher, open_receipts
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import PATIENCE_S, ask, upsert

TENANT = "traces"
WAY = [
    "publish",
    "send freki.documents.v1",
    "process freki.documents.v1",
    "send freki.chunks-bulk.v1",
    "process freki.chunks-bulk.v1",
    "send freki.contextual-chunks-bulk.v1",
    "process freki.contextual-chunks-bulk.v1",
    "send freki.outcomes.v1",
]
PARAGRAPHS = 400
"""Seconds of embedding, so that the worker dies over it."""


async def _spans(freki: Freki, trace_id: str, enough: Callable[[Sequence[SpanRecord]], bool]) -> list[SpanRecord]:
    """Read a trace as soon as it holds what is waited for; each process writes its spans in its own time."""
    directory = freki.settings.telemetry.trace_dir
    assert directory is not None
    async with asyncio.timeout(PATIENCE_S):
        # Other processes write it.
        while not enough(spans := read_trace(directory, trace_id)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return spans


def _has(*names: str) -> Callable[[Sequence[SpanRecord]], bool]:
    return lambda spans: set(names) <= {span.name for span in spans}


def _way(spans: Sequence[SpanRecord], last: str) -> list[str]:
    """Name the spans from the beginning of the trace to the last one of that name."""
    by_id = {span.span_id: span for span in spans}
    span: SpanRecord | None = [span for span in spans if span.name == last][-1]
    names = []
    while span is not None:
        names.append(span.name)
        span = by_id.get(span.parent_id or "")
    return names[::-1]


async def test_a_worker_that_is_killed_over_a_change_leaves_a_whole_trace_to_its_outcome(freki: Freki) -> None:
    content = "\n\n".join(
        f"Absatz {place}: Der Antrag {place * 7919} wird nach {place} Tagen von Amt {place % 13} beschieden. " * 3
        for place in range(PARAGRAPHS)
    )
    change = upsert(TENANT, "lang.txt", content)
    async with open_receipts(freki.settings) as receipts, open_publisher(freki.settings) as publisher:
        receipts.expect(change)
        with (
            tracing(freki.settings.telemetry, "test") as tracer,
            tracer.start_as_current_span("publish") as root,
        ):
            trace_id = format_trace_id(root.get_span_context().trace_id)
            await publisher.publish(change)
        before = await _spans(freki, trace_id, _has("send freki.contextual-chunks-bulk.v1"))
        await freki.children.kill("embed")
        after = await _spans(freki, trace_id, _has(*WAY[:5]))
        outcome = await receipts.next(patience_s=PATIENCE_S * 2)
    whole = await _spans(freki, trace_id, _has(*WAY))

    assert not _has("process freki.contextual-chunks-bulk.v1")(before)
    assert _way(after, "process freki.chunks-bulk.v1") == WAY[:5]
    assert outcome.status is OutcomeStatus.INDEXED
    assert _way(whole, "send freki.outcomes.v1") == WAY
    assert {"outline", "look up", "compare", "embed", "write", "commit", "sweep"} <= {span.name for span in whole}
    assert not any(span.failed for span in whole)


async def test_a_question_s_trace_goes_from_the_asker_through_the_worker_and_back(freki: Freki) -> None:
    result = await ask(freki, TENANT, "Wer bescheidet den Antrag?")

    way = ["ask", "send freki.queries.v1", "process freki.queries.v1", "send freki.contexts.v1"]
    spans = await _spans(freki, result.trace_id, _has(*way, "retrieve", "search.dense", "search.lexical"))

    assert _way(spans, "send freki.contexts.v1") == way
    assert _way(spans, "search.dense")[-2:] == ["retrieve", "search.dense"]
    assert {span.service for span in spans} == {"freki-client", "freki-retrieve"}
