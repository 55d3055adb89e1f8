"""Spans of a process, exported to an OTLP endpoint and to files."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, Tracer, TraceState
from opentelemetry.util.types import Attributes

from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.trace_files import JsonLinesExporter

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
_FILE_DELAY_MS = 200
"""Delay of writing spans to files; short for `freki ask --trace`."""
_QUEUE = 8_192
"""Maximum spans waiting for export; more are dropped. Spans of a query take 20 kB as JSON without content."""
_ATTRIBUTES = 256
"""Maximum attributes per span: twice 20 documents with 4 fields each, and others; beyond it the oldest are lost."""
_CHARACTERS = 20_000
"""Maximum characters of a value, as of a context; ids of what a stage refuses may be as long as a record."""
_OTLP_TIMEOUT_S = 3.0
"""Timeout of an export."""
_CLOSE_S = 3.0
"""Maximum wait for the last export at shutdown."""

_samplers: "WeakSet[_Share]" = WeakSet()
"""Those of this process."""
_providers: dict[tuple[str, str], tuple[TracerProvider, int]] = {}
"""By settings and component, with the number of their users."""
_providing = threading.Lock()


def set_trace_share(share: float) -> None:
    """Keep this share of the traces that begin in this process from now on; share: 0..1."""
    for sampler in _samplers:
        sampler.by_id = TraceIdRatioBased(share)


@contextmanager
def tracing(settings: TelemetrySettings, component: str) -> Iterator[Tracer]:
    """Yield the tracer of this process, and flush spans once nobody uses it, for a few seconds at most.

    component: distinguishes the processes of a service, such as `embed`. An endpoint that does not answer loses spans
    but never blocks: a separate thread exports them from a bounded queue.

    Connections of one process share it: each provider has a thread, and OpenTelemetry registers what is called after a
    fork, which can never be taken back; and a connection that ends while others go on must not wait for the endpoint.
    """
    key = (settings.model_dump_json(), component)
    with _providing:
        provider, users = _providers.get(key) or (_provider_of(settings, component), 0)
        _providers[key] = provider, users + 1
    try:
        yield provider.get_tracer("freki", schema_url=SCHEMA_URL)
    finally:
        with _providing:
            _, users = _providers.pop(key)
            if users > 1:
                _providers[key] = provider, users - 1
        if users == 1:
            # In a thread: an endpoint that does not answer would block the shutdown for too long.
            closing = threading.Thread(target=provider.shutdown, daemon=True)
            closing.start()
            closing.join(_CLOSE_S)


def _provider_of(settings: TelemetrySettings, component: str) -> TracerProvider:
    provider = TracerProvider(
        sampler=ParentBased(root=_Share(settings.trace_share)),
        resource=Resource.create({SERVICE_NAME: f"{settings.service_name}-{component}"}),
        # A batch links to each of its records, however many settings let it have: by the links its trace is found.
        span_limits=SpanLimits(
            max_span_attributes=_ATTRIBUTES, max_attribute_length=_CHARACTERS, max_links=SpanLimits.UNSET
        ),
        shutdown_on_exit=False,
    )
    # The file first, so that it is flushed even if the endpoint takes all the time.
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
    return provider


class _Share(Sampler):
    """Samples a share of the root spans; a batch is sampled if the trace of one of its records is.

    Decides by the trace id, so that all processes decide alike without a sampled parent.
    """

    def __init__(self, share: float) -> None:
        self.by_id = TraceIdRatioBased(share)
        _samplers.add(self)

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
        """Return the decision for a root span."""
        if links:
            kept = any(link.context.trace_flags.sampled for link in links)
            return SamplingResult(Decision.RECORD_AND_SAMPLE if kept else Decision.DROP)
        return self.by_id.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        """Return what the sampler is."""
        return self.by_id.get_description()
