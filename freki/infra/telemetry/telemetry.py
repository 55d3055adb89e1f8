"""Traces and logs of a process: where they go, and how a trace is read back on the local stack."""

import json
import logging
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    Link,
    SpanKind,
    StatusCode,
    Tracer,
    TraceState,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from opentelemetry.util.types import Attributes
from structlog.typing import EventDict, Processor, WrappedLogger

from freki.infra.settings.sections import TelemetrySettings
from freki.schemas.errors import Misconfigured

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

_FILE_BYTES = 8_000_000
"""A process keeps up to twice that: the file at hand and the one before."""
_FILES = 40
"""Files of earlier processes are kept up to this number in all."""
_FILE_DELAY_MS = 200
"""So that `freki ask --trace` need not wait for the trace of its answer."""
_QUEUE = 8_192
"""Spans that wait to be exported; more are dropped. Those of a query are 20 kB as JSON, with content more."""
_ATTRIBUTES = 256
"""Of a span: twice 20 documents with 4 fields each, and the rest. Of more, the first ones would be lost."""
_OTLP_TIMEOUT_S = 3.0
_CLOSE_S = 3.0
_CHATTY = (
    "aiokafka",
    "freki.infra.kafka.app",
    "asyncio",
    "faust",
    "grpc",
    "httpcore",
    "httpx",
    "kafka",
    "markdown_it",
    "mode",
    "pymilvus",
    "urllib3",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """A span as it was written to a file."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    parent_id: str | None
    name: str
    kind: str
    """INTERNAL, PRODUCER, CONSUMER, CLIENT or SERVER."""
    service: str
    start_ns: int
    end_ns: int
    """Both since 1970-01-01T00:00:00Z."""
    attributes: Mapping[str, Any]
    links: tuple[tuple[str, str], ...]
    """Trace and span of others that this one was done for."""
    failed: bool


@contextmanager
def tracing(settings: TelemetrySettings, component: str) -> Iterator[Tracer]:
    """Give the tracer of this process, and at the end send what is not sent yet, for some seconds at most.

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


class JsonLinesExporter(SpanExporter):
    """Appends each span as a line of JSON to a file of its process."""

    def __init__(self, directory: Path, component: str, *, file_bytes: int = _FILE_BYTES) -> None:
        """Make the directory, and room in it. Raises Misconfigured where that is not allowed."""
        self._file_bytes = file_bytes
        self._path = directory / f"{component}-{os.getpid()}.jsonl"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _remove_oldest(directory)
            _end_line(self._path)
        except OSError as error:
            raise Misconfigured(f"FREKI_TELEMETRY__TRACE_DIR={directory} cannot be written: {error}") from error

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write spans; where the file is full it is set aside, in place of the one that was before."""
        lines = "".join(json.dumps(_as_json(span), separators=(",", ":")) + "\n" for span in spans)
        try:
            # Opened anew each time: the file may have been removed to make room.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(lines)
                full = file.tell() > self._file_bytes
            if full:
                self._path.replace(self._path.with_suffix(".1.jsonl"))
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is open between exports."""


def read_trace(directory: Path, trace_id: str) -> list[SpanRecord]:
    """Read all spans of a trace, and of the batches that were done for it, by start.

    A batch of several records is a trace of its own; here it hangs below the span that it links to.
    """
    mentioned = list(_spans(directory, {trace_id}))
    own = [span for span in mentioned if span.trace_id == trace_id]
    ids = {span.span_id for span in own}
    batches = {
        span.trace_id: linked_span
        for span in mentioned
        for linked_trace, linked_span in span.links
        if span.trace_id != trace_id and linked_trace == trace_id and linked_span in ids
    }
    done_for_it = [
        span if span.parent_id is not None else replace(span, parent_id=batches[span.trace_id])
        for span in _spans(directory, batches.keys())
        if span.trace_id in batches
    ]
    return sorted([*own, *done_for_it], key=lambda span: (span.start_ns, span.span_id))


def _spans(directory: Path, trace_ids: Collection[str]) -> Iterator[SpanRecord]:
    """Read the spans that mention one of the traces, as their own or in a link."""
    for path in sorted(directory.glob("*.jsonl")):
        with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:  # it may just have been set aside
            for line in file:
                # The line that is being written may lack its end.
                if line.endswith("\n") and any(trace_id in line for trace_id in trace_ids):
                    with suppress(json.JSONDecodeError):  # its process was killed
                        yield _from_json(json.loads(line))


def _as_json(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context() or INVALID_SPAN_CONTEXT
    return {
        "trace": format_trace_id(context.trace_id),
        "span": format_span_id(context.span_id),
        "parent": None if span.parent is None else format_span_id(span.parent.span_id),
        "name": span.name,
        "kind": span.kind.name,
        "service": span.resource.attributes[SERVICE_NAME],
        "start_ns": span.start_time,
        "end_ns": span.end_time,
        "attributes": dict(span.attributes or {}),
        "links": [
            [format_trace_id(link.context.trace_id), format_span_id(link.context.span_id)] for link in span.links
        ],
        "failed": span.status.status_code is StatusCode.ERROR,
    }


def _from_json(line: Mapping[str, Any]) -> SpanRecord:
    return SpanRecord(
        trace_id=line["trace"],
        span_id=line["span"],
        parent_id=line["parent"],
        name=line["name"],
        kind=line["kind"],
        service=line["service"],
        start_ns=line["start_ns"],
        end_ns=line["end_ns"],
        attributes=line["attributes"],
        links=tuple((trace, span) for trace, span in line["links"]),
        failed=line["failed"],
    )


def _end_line(path: Path) -> None:
    """End what a process of the same number was writing when it was killed; in containers all have the same."""
    with suppress(FileNotFoundError), path.open("rb+") as file:
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _remove_oldest(directory: Path) -> None:
    for path in sorted(directory.glob("*.jsonl"), key=_written_at, reverse=True)[_FILES:]:
        path.unlink(missing_ok=True)


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process has just removed it
        return 0.0


def set_up_logging(settings: TelemetrySettings) -> None:
    """Send what we and the libraries log to standard error, with the trace that it belongs to."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    # Plain tracebacks: the rich ones print local variables, and with them the text of documents.
    renderers: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    context = get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = format_trace_id(context.trace_id)
        event["span_id"] = format_span_id(context.span_id)
    return event
