import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, get_current_span, set_span_in_context

from freki.streams.deliver.intake import required
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Headers, Outgoing, Received
from freki.streams.observe.tracing import Attributes, extracted, injected, step
from tests.unit.deliveries import Bad, Bench, Down, Event, FakeProducer, Spans

PRIVATE = "Peter Kühne"
Batch = Sequence[Received[str]]


def sender(spans: Spans) -> tuple[str, Headers]:
    """Begin a trace and give its id and headers."""
    span = spans.tracer.start_span("sender")
    headers = injected((), set_span_in_context(span, Context()))
    span.end()
    return trace_of(headers), headers


def trace_of(headers: Headers) -> str:
    return f"{get_current_span(extracted(headers)).get_span_context().trace_id:032x}"


def named(spans: Spans, name: str) -> list[ReadableSpan]:
    return [span for span in spans.finished if span.name == name]


def trace_id(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}"


async def test_what_a_stage_sends_belongs_to_the_trace_of_the_record_that_it_is_sent_for() -> None:
    bench = Bench()
    senders = [sender(bench.spans) for _ in range(3)]

    async def handle(batch: Batch) -> None:
        await bench.outbox.send(
            *(Outgoing(topic="out", key=received.key, value=b"", trace=received.trace) for received in batch)
        )

    await bench.delivery(decode=required(bytes.decode), handle=handle).deliver(
        [Event(headers=headers) for _, headers in senders], group="g"
    )

    assert [trace_of(sent.headers) for sent in bench.producer.to("out")] == [trace for trace, _ in senders]


async def test_each_event_has_a_consumer_span_in_its_sender_s_trace_and_the_batch_links_to_all() -> None:
    bench = Bench()
    senders = [sender(bench.spans) for _ in range(2)]

    async def handle(_: Batch) -> None:
        with step(bench.spans.tracer, "step"):
            pass

    await bench.delivery(decode=required(bytes.decode), handle=handle).deliver(
        [Event(headers=headers) for _, headers in senders], group="g"
    )

    consumed = named(bench.spans, "process documents")
    [batch] = named(bench.spans, "stage batch")
    [part] = named(bench.spans, "step")
    assert [trace_id(span) for span in consumed] == [trace for trace, _ in senders]
    assert {span.kind for span in consumed} == {SpanKind.CONSUMER}
    assert [link.context for link in batch.links] == [span.get_span_context() for span in consumed]
    assert trace_id(batch) not in {trace for trace, _ in senders}
    assert trace_id(part) == trace_id(batch)


async def test_a_batch_of_one_needs_no_span_beside_its_event_s() -> None:
    bench = Bench()
    trace, headers = sender(bench.spans)

    async def handle(_: Batch) -> None:
        with step(bench.spans.tracer, "step"):
            pass

    await bench.delivery(decode=required(bytes.decode), handle=handle).deliver([Event(headers=headers)], group="g")

    [consumed] = named(bench.spans, "process documents")
    [below] = named(bench.spans, "step")
    assert below.parent == consumed.get_span_context()
    assert trace_id(consumed) == trace
    assert named(bench.spans, "stage batch") == []


async def test_the_span_of_a_record_ends_also_where_its_sender_is_cancelled_before_the_delivery_has_begun() -> None:
    bench = Bench()
    sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Waiting(FakeProducer):
        async def send(self, *_: Any, **__: Any) -> asyncio.Future[None]:
            return sent

    bench.use(Waiting())
    sending = asyncio.create_task(bench.outbox.send(Outgoing(topic="out", key=b"k", value=b"")))
    # After the sender has run for the first time, and before what it has begun does.
    asyncio.get_running_loop().call_soon(sending.cancel)

    with pytest.raises(asyncio.CancelledError):
        await sending

    [span] = named(bench.spans, "send out")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "CancelledError"
    assert sent.cancelled()


async def test_a_record_without_trace_context_begins_a_trace() -> None:
    bench = Bench()

    async def handle(_: Batch) -> None:
        pass

    await bench.delivery(decode=required(bytes.decode), handle=handle).deliver(
        [Event(headers=(("traceparent", b"\xffnonsense"),))], group="g"
    )

    [span] = named(bench.spans, "process documents")
    assert span.parent is None


async def test_the_span_of_a_dead_record_has_failed_and_its_dead_letter_stays_in_its_trace() -> None:
    bench = Bench()
    trace, headers = sender(bench.spans)

    async def handle(_: Batch) -> None:
        raise Bad(PRIVATE)

    await bench.delivery(decode=required(bytes.decode), handle=handle).deliver([Event(headers=headers)], group="g")

    [span] = named(bench.spans, "process documents")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "Bad"
    assert [trace_of(sent.headers) for sent in bench.dead] == [trace]


async def test_no_span_holds_text_key_or_value_of_a_record() -> None:
    bench = Bench()

    async def handle(batch: Batch) -> None:
        if len(batch) == 1:
            raise ValueError(PRIVATE)
        raise Bad(PRIVATE)

    await bench.delivery(decode=required(bytes.decode), handle=handle).deliver(
        [Event(key=PRIVATE.encode(), value=PRIVATE.encode())] * 2, group="g"
    )

    assert bench.spans.finished
    assert PRIVATE not in "".join(span.to_json() for span in bench.spans.finished)


async def test_all_spans_are_ended_and_failed_when_the_stage_stops() -> None:
    bench = Bench(attempts=1)

    async def handle(_: Batch) -> None:
        raise Down

    with pytest.raises(Down):
        await bench.delivery(decode=required(bytes.decode), handle=handle).deliver([Event(), Event()], group="g")

    assert len(bench.spans.finished) == 3
    assert {span.status.status_code for span in bench.spans.finished} == {StatusCode.ERROR}


async def test_a_record_of_a_trace_that_is_not_sampled_is_not_described_and_passes_the_flag_on() -> None:
    bench = Bench()
    unsampled = (("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),)

    def fail() -> Attributes:
        raise AssertionError

    async def handle(batch: Batch) -> None:
        with step(bench.spans.tracer, "step", fail):
            await bench.outbox.send(Outgoing(topic="out", key=b"k", value=b"", trace=batch[0].trace))

    await bench.delivery(decode=required(bytes.decode), handle=handle).deliver([Event(headers=unsampled)], group="g")

    assert bench.spans.finished == ()
    assert trace_of(bench.producer.sent[0].headers) == "0af7651916cd43dd8448eb211c80319c"
    assert bench.producer.sent[0].headers[0][1].endswith(b"-00")


def test_injecting_replaces_the_trace_context_of_a_forwarded_record() -> None:
    spans = Spans()
    _, old = sender(spans)
    trace, new = sender(spans)

    headers = injected((("other", b"1"), *old), extracted(new))

    assert trace_of(headers) == trace
    assert [name for name, _ in headers] == ["other", "traceparent"]


def test_without_a_span_headers_stay_as_they_are() -> None:
    assert injected((("a", b"1"),), Context()) == (("a", b"1"),)


async def test_all_deliveries_are_awaited_before_the_first_error_is_raised() -> None:
    producer, spans = FakeProducer(unconfirmed=[Down("first")]), Spans()

    with pytest.raises(Down, match="first"):
        await Outbox(producer, spans.tracer).send(
            Outgoing(topic="out", key=b"a", value=b"1"), Outgoing(topic="out", key=b"b", value=b"2")
        )

    assert [sent.key for sent in producer.sent] == [b"b"]
    assert [span.status.status_code for span in named(spans, "send out")] == [StatusCode.ERROR, StatusCode.UNSET]


async def test_records_after_one_that_cannot_be_queued_are_not_sent() -> None:
    producer, spans = FakeProducer(failures=[Bad()]), Spans()

    with pytest.raises(Bad):
        await Outbox(producer, spans.tracer).send(
            Outgoing(topic="out", key=b"a", value=b"1"), Outgoing(topic="out", key=b"b", value=b"2")
        )

    assert producer.sent == []
