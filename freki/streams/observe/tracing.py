"""Spans that join all processing of a producer's record into one trace.

Only this module reads and writes the `traceparent` header.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context, attach, detach
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import (
    Link,
    NoOpTracer,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from freki.schemas import IndexOutcome, Revision
from freki.streams.messages import Headers, Outgoing, Stored
from freki.streams.observe import attributes

Attributes = Mapping[str, AttributeValue]

UNTRACED = NoOpTracer()
"""Tracer that records nothing."""

_W3C = TraceContextTextMapPropagator()
_FIELDS = frozenset(_W3C.fields)


class _HeaderGetter(Getter[Headers]):
    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = [value.decode("ascii", errors="replace") for name, value in carrier if name == key]
        return found[-1:] or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


class _HeaderSetter(Setter[list[tuple[str, bytes]]]):
    def set(self, carrier: list[tuple[str, bytes]], key: str, value: str) -> None:
        carrier.append((key, value.encode("ascii")))


_GETTER = _HeaderGetter()
_SETTER = _HeaderSetter()


def extracted(headers: Headers) -> Context:
    """Return the context with the sender's span from headers; ignore an invalid W3C trace context."""
    return _W3C.extract(headers, context=Context(), getter=_GETTER)


def injected(headers: Headers, context: Context) -> Headers:
    """Return headers with the context's span as trace context; unchanged headers if there is no span."""
    written: list[tuple[str, bytes]] = []
    _W3C.inject(written, context=context, setter=_SETTER)
    if not written:
        return headers
    return (*((name, value) for name, value in headers if name not in _FIELDS), *written)


@contextmanager
def processing(tracer: Tracer, stage: str, group: str, events: Sequence[Stored]) -> Iterator[list[Context]]:
    """Open one span per event, each in its sender's trace, and one for the batch, which is the current span.

    Yields one context per event. A batch of one event has no span of its own: the event's span is current. A larger
    batch is a separate trace that links to all of its events.
    """
    contexts = [_event_context(tracer, stage, group, event) for event in events]
    events_spans = [get_current_span(context) for context in contexts]
    batch = events_spans[0] if len(events) == 1 else _batch_span(tracer, stage, events_spans)
    try:
        with use_span(batch, record_exception=False, set_status_on_exception=False):
            yield contexts
    except BaseException as error:
        for span in (batch, *events_spans):
            failed(span, error)
        raise
    finally:
        for span in {id(span): span for span in (batch, *events_spans)}.values():
            span.end()


def _batch_span(tracer: Tracer, stage: str, events: Sequence[Span]) -> Span:
    span = tracer.start_span(
        f"{stage} batch", context=Context(), links=[Link(event.get_span_context()) for event in events]
    )
    describe(
        span,
        lambda: {
            attributes.OPENINFERENCE_SPAN_KIND: attributes.CHAIN,
            attributes.FREKI_STAGE: stage,
            attributes.MESSAGING_BATCH_MESSAGE_COUNT: len(events),
        },
    )
    return span


def _event_context(tracer: Tracer, stage: str, group: str, event: Stored) -> Context:
    parent = extracted(event.headers)
    span = tracer.start_span(f"process {event.topic}", context=parent, kind=SpanKind.CONSUMER)
    describe(
        span,
        lambda: {
            attributes.OPENINFERENCE_SPAN_KIND: attributes.CHAIN,
            attributes.FREKI_STAGE: stage,
            attributes.MESSAGING_SYSTEM: "kafka",
            attributes.MESSAGING_OPERATION_NAME: "process",
            attributes.MESSAGING_OPERATION_TYPE: "process",
            attributes.MESSAGING_DESTINATION_NAME: event.topic,
            attributes.MESSAGING_DESTINATION_PARTITION_ID: str(event.partition),
            attributes.MESSAGING_CONSUMER_GROUP_NAME: group,
            attributes.MESSAGING_KAFKA_OFFSET: event.offset,
            attributes.MESSAGING_KAFKA_MESSAGE_TOMBSTONE: event.value is None,
            attributes.MESSAGING_MESSAGE_BODY_SIZE: len(event.value or b""),
        },
    )
    return set_span_in_context(span, parent)


def sending(tracer: Tracer, record: Outgoing) -> tuple[Span, Headers]:
    """Open the span of an outgoing record; return it with the headers that propagate it. The caller ends the span."""
    span = tracer.start_span(f"send {record.topic}", context=record.trace, kind=SpanKind.PRODUCER)
    describe(
        span,
        lambda: {
            attributes.OPENINFERENCE_SPAN_KIND: attributes.CHAIN,
            attributes.MESSAGING_SYSTEM: "kafka",
            attributes.MESSAGING_OPERATION_NAME: "send",
            attributes.MESSAGING_OPERATION_TYPE: "send",
            attributes.MESSAGING_DESTINATION_NAME: record.topic,
            attributes.MESSAGING_MESSAGE_BODY_SIZE: len(record.value or b""),
        },
    )
    return span, injected(record.headers, set_span_in_context(span, Context()))


@contextmanager
def step(
    tracer: Tracer,
    name: str,
    described: Callable[[], Attributes] = dict,
    *,
    kind: str = attributes.CHAIN,
    trace: Context | None = None,
) -> Iterator[Span]:
    """Open a span as a child of the span in `trace`, or else of the current one."""
    span = tracer.start_span(name, context=trace)
    describe(span, lambda: {attributes.OPENINFERENCE_SPAN_KIND: kind, **described()})
    try:
        yield span
    except BaseException as error:
        failed(span, error)
        raise
    finally:
        span.end()


def of_document(subject: Revision | IndexOutcome) -> Attributes:
    """Return the attributes that identify a document and its version."""
    return {
        attributes.FREKI_TENANT: subject.tenant,
        attributes.FREKI_DOCUMENT_ID: subject.document_id,
        attributes.FREKI_DOCUMENT_VERSION: subject.version,
    }


@contextmanager
def attached(trace: Context) -> Iterator[None]:
    """Make the span in `trace` the current one, so that log messages carry its ids."""
    token = attach(trace)
    try:
        yield
    finally:
        detach(token)


def describe(span: Span, described: Callable[[], Attributes]) -> None:
    """Set attributes, computed only if the span is recorded."""
    if span.is_recording():
        span.set_attributes(described())


def failed(span: Span, error: BaseException) -> None:
    """Mark a span as failed, with the error's type only, because messages may quote a record."""
    span.set_attribute(attributes.ERROR_TYPE, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR))
