"""Span files: written by each process of the local stack, and read back as one trace."""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import SERVICE_NAME
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import INVALID_SPAN_CONTEXT, StatusCode, format_span_id, format_trace_id

from freki.schemas.errors import Misconfigured

_FILE_BYTES = 8_000_000
"""Maximum size of a span file before it is rotated; one rotated file per process is kept."""
_FILES = 40
"""Maximum number of span files in the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """A span read from a file."""

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
    """Start and end in nanoseconds since 1970-01-01T00:00:00Z."""
    attributes: Mapping[str, Any]
    links: tuple[tuple[str, str], ...]
    """Trace and span ids of linked spans."""
    failed: bool


class JsonLinesExporter(SpanExporter):
    """Appends each span as a line of JSON to a file per process."""

    def __init__(self, directory: Path, component: str, *, file_bytes: int = _FILE_BYTES) -> None:
        """Create the directory, and delete its oldest files. Raises Misconfigured if it cannot be written."""
        self._file_bytes = file_bytes
        self._path = directory / f"{component}-{os.getpid()}.jsonl"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _remove_oldest(directory)
            _end_line(self._path)
        except OSError as error:
            raise Misconfigured(f"FREKI_TELEMETRY__TRACE_DIR={directory} cannot be written: {error}") from error

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write spans, and rotate the file when it is full."""
        lines = "".join(json.dumps(_as_json(span), separators=(",", ":")) + "\n" for span in spans)
        try:
            # Reopened each time: another process may have deleted the file.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(lines)
                full = file.tell() > self._file_bytes
            if full:
                self._path.replace(self._path.with_suffix(".1.jsonl"))
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing: no file is open between exports."""


def read_trace(directory: Path, trace_id: str) -> list[SpanRecord]:
    """Return all spans of a trace and of batches linked to it, ordered by start.

    A batch of several records is a separate trace; here it becomes a child of the span that it links to.
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
    """Yield the spans of the traces, and those that link to them."""
    for path in sorted(directory.glob("*.jsonl")):
        with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:  # it may have been rotated
            for line in file:
                # The last line may be incomplete.
                if line.endswith("\n") and any(trace_id in line for trace_id in trace_ids):
                    with suppress(json.JSONDecodeError):  # the process was killed while writing
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
        "events": [
            {"name": event.name, "at_ns": event.timestamp, "attributes": dict(event.attributes or {})}
            for event in span.events
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
    """End the incomplete line of a killed process with the same id; in containers ids repeat."""
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
    except FileNotFoundError:  # deleted by another process
        return 0.0
