"""No record stops a stage, whatever its bytes: it ends in its output or in the dead letters."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import (
    ChunkBatch,
    ContextQuery,
    ContextualChunkBatch,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    QueryId,
    Revision,
    RevisionOperation,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.names import YEAR_10000_MS
from freki.streams.deliver.stage import _event
from tests.unit.deliveries import DEAD_LETTERS, Event
from tests.unit.pipelines import Pipeline

OUTPUTS = {"documents": "chunks", "chunks": "contextual-chunks", "contextual-chunks": "outcomes", "queries": "contexts"}
LONG = st.one_of(st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]), st.integers(-(2**63), 2**63 - 1))
NAMES = st.one_of(
    st.sampled_from(["traceparent", "tracestate", "freki-priority", "freki-version", "freki-replays"]),
    st.sampled_from(["freki-recorded-at", "freki-dead-letter-topic", "freki-dead-letter-null-value"]),
    st.text(max_size=8),
)
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01", b"a=1," * 200, b"9" * 400, "²".encode()]),
)
HEADERS = st.lists(st.tuples(NAMES, CONTENTS), max_size=6).map(tuple)
KEYS = st.one_of(
    st.none(), st.sampled_from([b"", b"t/d", b"/", b"t/", b"\xff/\xfe", b"t/" + b"d" * 3_000]), st.binary(max_size=12)
)
TEXT = st.text(max_size=40)


def revision(version: int, at: int, text: str, parts: int) -> dict[str, Any]:
    made = Revision(
        tenant=TenantId("t"),
        document_id=DocumentId("d"),
        operation=RevisionOperation.UPSERT,
        version=version,
        name=text,
        media_type=text,
        language=text,
        source_uri=text,
        principals=("all", text),
        attributes={text: text},
        priority=0,
        content_hash=text,
        chunker=text,
        characters=at,
        occurred_at=Timestamp(at),
        recorded_at=Timestamp(at),
        received_at=Timestamp(at),
    )
    return {"revision": made, "part": 0, "parts": parts, "chunks": ()}


@st.composite
def values(draw: st.DrawFn) -> bytes | None:
    """Draw junk, and well-formed records with fields at their limits."""
    frames = [b"", b"\x00", b"\x00\xff\xff\xff\xff", b"\xc3\x01", Codec(DocumentChange).encode(_change(1, 1, "x"))[:10]]
    kind = draw(st.integers(0, 6))
    long = draw(LONG)
    if kind == 0:
        return None
    if kind == 1:
        return draw(st.sampled_from(frames)) + draw(st.binary(max_size=60))
    if kind == 2:
        return Codec(DocumentChange).encode(_change(long, draw(LONG), draw(TEXT)))
    if kind == 3:
        return Codec(ChunkBatch).encode(ChunkBatch(**revision(long, draw(LONG), draw(TEXT), 1)))
    if kind == 4:
        # Not more than one: that has no outcome before all are there.
        parts = draw(st.sampled_from([1, 0, -1, -(2**31)]))
        return Codec(ContextualChunkBatch).encode(ContextualChunkBatch(**revision(long, draw(LONG), draw(TEXT), parts)))
    query = ContextQuery(
        query_id=cast("Any", draw(TEXT)),
        tenant=TenantId("t"),
        text=draw(TEXT),
        asked_at=Timestamp(long),
        principals=("all",),
        deadline_ms=draw(st.none() | st.integers(-(2**31), 2**31 - 1)),
        reply_to=draw(st.none() | TEXT),
    )
    return Codec(ContextQuery).encode(query)


def _change(version: int, at: int, text: str) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId("d"),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=Timestamp(at),
        media_type=text or None,
        principals=("all",),
        content=text,
    )


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    """Make the stages once: what they remember of one record must not spoil another either."""
    return Pipeline(reply_topics=["mine"])


@given(
    key=KEYS,
    value=values(),
    headers=HEADERS,
    timestamp_ms=LONG,
    topic=st.sampled_from(tuple(OUTPUTS)),
)
async def test_every_record_of_whatever_bytes_ends_in_its_output_or_in_the_dead_letters(
    pipeline: Pipeline, key: bytes | None, value: bytes | None, headers: Any, timestamp_ms: int, topic: str
) -> None:
    sent = pipeline.producer.sent
    sent.clear()

    await pipeline.take(
        topic, Event(topic=topic, key=key, value=value, headers=headers, timestamp_ms=timestamp_ms, offset=7)
    )
    for _ in range(100):
        if sent:
            break
        await asyncio.sleep(0)

    assert {record.topic for record in sent} <= {OUTPUTS[topic], DEAD_LETTERS, "outcomes", "mine"}
    assert sent


@pytest.mark.parametrize(
    ("timestamp", "milliseconds"),
    [(None, 0), (-0.001, 0), (9.3e15, YEAR_10000_MS - 1), (-9.3e15, 0), (1.5, 1500)],
)
def test_whatever_time_a_record_names_is_one_that_every_reader_can_show(
    timestamp: float | None, milliseconds: int
) -> None:
    assert _event(message(timestamp=timestamp)).timestamp_ms == milliseconds


@pytest.mark.parametrize("at", [-(2**63), -1, 2**63 - 1])
async def test_the_receipt_of_a_change_with_an_impossible_time_has_a_possible_one(pipeline: Pipeline, at: int) -> None:
    pipeline.producer.sent.clear()

    await pipeline.publish(_change(1, at, "Text"))

    (sent,) = pipeline.producer.to("outcomes")
    outcome = Codec(IndexOutcome).decode(sent.value or b"")
    assert outcome.status is OutcomeStatus.REJECTED
    assert datetime.fromtimestamp(outcome.occurred_at / 1000, UTC).year in {1970, 9999}


@pytest.mark.parametrize("at", [-(2**63), 2**63 - 1])
async def test_an_answer_has_times_that_every_reader_can_show_whatever_its_query_says(
    pipeline: Pipeline, at: int
) -> None:
    result = await pipeline.ask(
        ContextQuery(query_id=QueryId("q"), tenant=TenantId("t"), text="Text", asked_at=Timestamp(at))
    )

    assert datetime.fromtimestamp(result.asked_at / 1000, UTC).year in {1970, 9999}


@pytest.mark.parametrize("headers", [None, [], {}, [("a", None)], {"a": None}, (("a", b"1"), ("a", b"2"))])
def test_a_header_without_a_value_is_an_empty_one(headers: Any) -> None:
    pairs: Sequence[tuple[str, bytes | None]] = list(dict(headers).items()) if isinstance(headers, dict) else headers

    assert _event(message(headers=headers)).headers == tuple((name, value or b"") for name, value in pairs or ())


def message(*, timestamp: float | None = 1.0, headers: Any = None) -> Any:
    return SimpleNamespace(topic="t", partition=0, offset=0, timestamp=timestamp, key=b"k", value=b"v", headers=headers)
