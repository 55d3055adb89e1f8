"""Spans of a process, exported to an OTLP endpoint and to files."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, Tracer, TraceState
from opentelemetry.util.types import Attributes

from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.trace_files import JsonLinesExporter

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
_FILE_DELAY_MS = 200
"""So that `freki ask --trace` need not wait for the trace of its answer."""
_QUEUE = 8_192
"""Spans that wait to be exported; more are dropped. Those of a query are 20 kB as JSON, with content more."""
_ATTRIBUTES = 256
"""Of a span: twice 20 documents with 4 fields each, and the rest. Of more, the first ones would be lost."""
_OTLP_TIMEOUT_S = 3.0
_CLOSE_S = 3.0


@contextmanager
def tracing(settings: TelemetrySettings, component: str) -> Iterator[Tracer]:
    """Return the tracer of this process, and at the end send what is not sent yet, for some seconds at most.

    `component` tells the processes of a service apart, such as `embed`. An endpoint that does not answer costs spans,
    never time: they wait in a queue of limited length, and a thread of its own sends them.
    """
    provider = TracerProvider(
        sampler=ParentBased(root=_Share(settings.trace_share)),
        resource=Resource.create({SERVICE_NAME: f"{settings.service_name}-{component}"}),
        span_limits=SpanLimits(max_span_attributes=_ATTRIBUTES),
        shutdown_on_exit=False,
    )
    # The file first: what it holds is flushed even where the endpoint takes all the time there is.
    if settings.trace_dir is not None:
        exporter = JsonLinesExporter(settings.trace_dir, component)
        provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=_QUEUE, schedule_delay_millis=_FILE_DELAY_MS)
        )
    if settings.otlp_endpoint is not None:
        endpoint = f"{settings.otlp_endpoint.rstrip('/')}/v1/traces"
        provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=_OTLP_TIMEOUT_S), max_queue_size=_QUEUE)
        )
    try:
        yield provider.get_tracer("freki", schema_url=SCHEMA_URL)
    finally:
        # In a thread, since an endpoint that does not answer holds it up for longer than anyone waits.
        closing = threading.Thread(target=provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)


class _Share(TraceIdRatioBased):
    """Keeps a share of the traces that begin here; a batch is kept where the trace of one of its records is.

    By the trace's id, so that all who see a trace without a word from its beginning decide alike.
    """

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide about a span without parent."""
        if links:
            kept = any(link.context.trace_flags.sampled for link in links)
            return SamplingResult(Decision.RECORD_AND_SAMPLE if kept else Decision.DROP)
        return super().should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)
