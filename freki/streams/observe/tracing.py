"""One trace from a producer's record to what became of it.

The only place that reads `traceparent` from headers and writes it there.
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
    """Read the sender's span from headers; what is not a W3C trace context is as if absent."""
    return _W3C.extract(headers, context=Context(), getter=_GETTER)


def injected(headers: Headers, context: Context) -> Headers:
    """Write the context's span into headers, in place of what they said; without a span they stay."""
    written: list[tuple[str, bytes]] = []
    _W3C.inject(written, context=context, setter=_SETTER)
    if not written:
        return headers
    return (*((name, value) for name, value in headers if name not in _FIELDS), *written)


@contextmanager
def processing(tracer: Tracer, stage: str, group: str, events: Sequence[Stored]) -> Iterator[list[Context]]:
    """Open one span an event, each in its sender's trace, and one for the batch, which is current inside.

    Yields a context an event. A batch of one needs no span beside its event's, which is current then; a larger one is
    a trace of its own that links to all of its events.
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
    """Open the span of a record that leaves, and give the headers that carry it. The caller ends the span."""
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
    """Open the span of a part of the work, below the span in `trace`, else below the current one."""
    span = tracer.start_span(name, context=trace)
    describe(span, lambda: {attributes.OPENINFERENCE_SPAN_KIND: kind, **described()})
    try:
        yield span
    except BaseException as error:
        failed(span, error)
        raise
    finally:
        span.end()


def of_document(what: Revision | IndexOutcome) -> Attributes:
    """Name the document."""
    return {
        attributes.FREKI_TENANT: what.tenant,
        attributes.FREKI_DOCUMENT_ID: what.document_id,
        attributes.FREKI_DOCUMENT_VERSION: what.version,
    }


@contextmanager
def attached(trace: Context) -> Iterator[None]:
    """Make the span in `trace` the current one, so that what is logged names it."""
    token = attach(trace)
    try:
        yield
    finally:
        detach(token)


def describe(span: Span, described: Callable[[], Attributes]) -> None:
    """Set attributes, which are only made where somebody will see them."""
    if span.is_recording():
        span.set_attributes(described())


def failed(span: Span, error: BaseException) -> None:
    """Mark a span with the kind of error only: messages may quote a record."""
    span.set_attribute(attributes.ERROR_TYPE, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR))
