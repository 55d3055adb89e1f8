"""One trace from a producer's record to what became of it.

The only place that reads `traceparent` from headers and writes it there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import (
    Link,
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

from freki.streams import attributes
from freki.streams.messages import Headers, Outgoing, Stored

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

    Yields a context an event. A batch of one stands in its event's trace; a larger one is a trace of its own that
    links to all of its events.
    """
    contexts = [_event_context(tracer, stage, group, event) for event in events]
    alone = contexts[0] if len(contexts) == 1 else Context()
    batch = tracer.start_span(
        f"{stage} batch",
        context=alone,
        links=[Link(get_current_span(context).get_span_context()) for context in contexts],
        attributes={attributes.FREKI_STAGE: stage, attributes.MESSAGING_BATCH_MESSAGE_COUNT: len(events)},
    )
    try:
        with use_span(batch, record_exception=False, set_status_on_exception=False):
            yield contexts
    except BaseException as error:
        for span in (batch, *map(get_current_span, contexts)):
            failed(span, error)
        raise
    finally:
        batch.end()
        for context in contexts:
            get_current_span(context).end()


def _event_context(tracer: Tracer, stage: str, group: str, event: Stored) -> Context:
    parent = extracted(event.headers)
    span = tracer.start_span(
        f"process {event.topic}",
        context=parent,
        kind=SpanKind.CONSUMER,
        attributes={
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
    span = tracer.start_span(
        f"send {record.topic}",
        context=record.trace,
        kind=SpanKind.PRODUCER,
        attributes={
            attributes.MESSAGING_SYSTEM: "kafka",
            attributes.MESSAGING_OPERATION_NAME: "send",
            attributes.MESSAGING_OPERATION_TYPE: "send",
            attributes.MESSAGING_DESTINATION_NAME: record.topic,
            attributes.MESSAGING_MESSAGE_BODY_SIZE: len(record.value or b""),
        },
    )
    return span, injected(record.headers, set_span_in_context(span, Context()))


def stage_span(  # noqa: PLR0913 - a span has that many parts
    tracer: Tracer,
    name: str,
    *,
    trace: Context | None,
    start_ns: int,
    end_ns: int,
    described: Mapping[str, AttributeValue],
) -> None:
    """Report a step that is over, below the span in `trace`; None: below the current one."""
    tracer.start_span(name, context=trace, start_time=start_ns, attributes=described).end(end_time=end_ns)


def failed(span: Span, error: BaseException) -> None:
    """Mark a span with the kind of error only: messages may quote a record."""
    span.set_attribute(attributes.ERROR_TYPE, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR))
