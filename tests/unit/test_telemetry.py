import gc
import inspect
import json
import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakMethod

import pytest
import structlog
from aiokafka.consumer import group_coordinator
from aiokafka.errors import GroupAuthorizationFailedError
from mode import timers
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    Tracer,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)

from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.logs import LINES, ROUTINE, WANTED, RateLimit, set_up_logging
from freki.infra.telemetry.trace_files import JsonLinesExporter, read_trace
from freki.infra.telemetry.traces import tracing
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.retrieve.trace import TEXT_CHARACTERS

NOBODY_LISTENS = "http://127.0.0.1:1"


@pytest.fixture
def clean_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def ids(tracer: Tracer, name: str, parent: Context, *, links: list[Link] | None = None) -> tuple[str, str, Context]:
    """Make a finished span; give its ids and its context."""
    span = tracer.start_span(name, context=parent, links=links, attributes={"freki.items": 3})
    span.end()
    context = span.get_span_context()
    return format_trace_id(context.trace_id), format_span_id(context.span_id), set_span_in_context(span, parent)


def of_opentelemetry() -> int:
    """Count what OpenTelemetry keeps for forks, which it never gives back, and its threads."""
    gc.collect()
    kept = sum(isinstance(each, WeakMethod) for each in gc.get_objects())
    return kept + sum(thread.name.startswith("OtelBatch") for thread in threading.enumerate())


def test_connections_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    settings = TelemetrySettings(trace_dir=tmp_path)
    with tracing(settings, "client") as lasting:
        before = of_opentelemetry()
        for _ in range(5):
            with tracing(settings.model_copy(), "client") as tracer:
                ids(tracer, "passing", Context())
        after = of_opentelemetry()
        trace, *_ = ids(lasting, "lasting", Context())

    assert after == before
    assert [span.name for span in read_trace(tmp_path, trace)] == ["lasting"]


def test_processes_of_several_parts_have_each_its_own_service(tmp_path: Path) -> None:
    settings = TelemetrySettings(trace_dir=tmp_path)
    with tracing(settings, "client") as one, tracing(settings, "serve") as other:
        traces = [ids(tracer, "any", Context())[0] for tracer in (one, other)]

    services = [span.service for trace in traces for span in read_trace(tmp_path, trace)]
    assert services == ["freki-client", "freki-serve"]


def test_a_trace_is_read_back_as_it_was_with_parents_in_order(tmp_path: Path) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path), "embed") as tracer:
        trace, root, context = ids(tracer, "root", Context())
        _, child, _ = ids(tracer, "child", context)
        ids(tracer, "other trace", Context())

    spans = read_trace(tmp_path, trace)

    assert [(span.name, span.span_id, span.parent_id) for span in spans] == [
        ("root", root, None),
        ("child", child, root),
    ]
    assert {(span.trace_id, span.service, span.kind, span.failed) for span in spans} == {
        (trace, "freki-embed", "INTERNAL", False)
    }
    assert spans[0].attributes == {"freki.items": 3}
    assert spans[0].start_ns <= spans[0].end_ns <= spans[1].start_ns


def test_the_file_has_the_events_of_a_span(tmp_path: Path) -> None:
    with (
        tracing(TelemetrySettings(trace_dir=tmp_path), "retrieve") as tracer,
        tracer.start_as_current_span("q") as span,
    ):
        span.add_event("freki.notice", {"freki.notice.kind": "SKIPPED"}, timestamp=7)

    [file] = tmp_path.iterdir()

    assert json.loads(file.read_text())["events"] == [
        {"name": "freki.notice", "at_ns": 7, "attributes": {"freki.notice.kind": "SKIPPED"}}
    ]


def test_no_value_of_a_span_is_longer_than_what_a_person_reads(tmp_path: Path) -> None:
    with (
        tracing(TelemetrySettings(trace_dir=tmp_path), "retrieve") as tracer,
        tracer.start_as_current_span("q") as span,
    ):
        span.set_attribute("freki.query.id", "q" * 1_000_000)
        span.add_event("freki.notice", {"freki.notice.message": "m" * 1_000_000})

    [file] = tmp_path.iterdir()

    assert file.stat().st_size < 3 * TEXT_CHARACTERS


def test_a_trace_of_several_processes_is_read_as_one(tmp_path: Path) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path), "chunk") as tracer:
        trace, _, context = ids(tracer, "first", Context())
    with tracing(TelemetrySettings(trace_dir=tmp_path), "embed") as tracer:
        ids(tracer, "second", context)

    assert [span.service for span in read_trace(tmp_path, trace)] == ["freki-chunk", "freki-embed"]


def test_a_batch_hangs_below_the_record_that_it_was_done_for(tmp_path: Path) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path), "embed") as tracer:
        trace, mine, mine_context = ids(tracer, "mine", Context())
        _, _, other_context = ids(tracer, "someone else's", Context())
        links = [_link(mine_context), _link(other_context)]
        _, batch, batch_context = ids(tracer, "batch", Context(), links=links)
        ids(tracer, "step", batch_context)

    assert [(span.name, span.parent_id) for span in read_trace(tmp_path, trace)] == [
        ("mine", None),
        ("batch", mine),
        ("step", batch),
    ]


def test_a_batch_hangs_below_each_of_its_records_however_many_they_are(tmp_path: Path) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path), "embed") as tracer:
        records = [ids(tracer, "record", Context()) for _ in range(300)]
        ids(tracer, "batch", Context(), links=[_link(context) for _, _, context in records])

    for trace, _, _ in (records[0], records[-1]):
        assert [span.name for span in read_trace(tmp_path, trace)] == ["record", "batch"]


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path), "embed") as tracer:
        trace, _, _ = ids(tracer, "whole", Context())
    [file] = tmp_path.iterdir()
    file.write_text(file.read_text() + '{"trace":"' + trace)

    assert [span.name for span in read_trace(tmp_path, trace)] == ["whole"]


def test_what_a_killed_process_was_writing_costs_no_other_span(tmp_path: Path) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path), "embed") as tracer:
        trace, _, context = ids(tracer, "before", Context())
    [file] = tmp_path.iterdir()
    file.write_text(file.read_text() + '{"trace":"' + trace)

    # In a container the next process has the same number, and so the same file.
    with tracing(TelemetrySettings(trace_dir=tmp_path), "embed") as tracer:
        ids(tracer, "after", context)

    assert [span.name for span in read_trace(tmp_path, trace)] == ["before", "after"]


@pytest.mark.parametrize(("share", "kept"), [(0.0, 0), (1.0, 200)])
def test_a_share_of_traces_is_kept(tmp_path: Path, share: float, kept: int) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path, trace_share=share), "embed") as tracer:
        traces = [ids(tracer, "span", Context())[0] for _ in range(200)]

    assert sum(bool(read_trace(tmp_path, trace)) for trace in traces) == kept


@pytest.mark.parametrize(("share", "flag", "kept"), [(0.0, TraceFlags.SAMPLED, True), (1.0, TraceFlags.DEFAULT, False)])
def test_who_began_a_trace_decides_whether_it_is_kept(tmp_path: Path, share: float, flag: int, *, kept: bool) -> None:
    begun = SpanContext(trace_id=7, span_id=8, is_remote=True, trace_flags=TraceFlags(flag))

    with tracing(TelemetrySettings(trace_dir=tmp_path, trace_share=share), "embed") as tracer:
        trace, _, _ = ids(tracer, "span", set_span_in_context(NonRecordingSpan(begun), Context()))

    assert bool(read_trace(tmp_path, trace)) is kept


@pytest.mark.parametrize("flag", [TraceFlags.SAMPLED, TraceFlags.DEFAULT])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_batch_is_kept_where_one_of_its_records_is(tmp_path: Path, share: float, flag: int) -> None:
    first, last = (SpanContext(number, number, is_remote=True, trace_flags=TraceFlags(0)) for number in (1, 2))
    second = SpanContext(3, 3, is_remote=True, trace_flags=TraceFlags(flag))

    with tracing(TelemetrySettings(trace_dir=tmp_path, trace_share=share), "embed") as tracer:
        trace, _, _ = ids(tracer, "batch", Context(), links=[Link(first), Link(second), Link(last)])

    assert bool(read_trace(tmp_path, trace)) is bool(flag)


def test_an_unknown_trace_is_empty(tmp_path: Path) -> None:
    assert read_trace(tmp_path, "0" * 32) == []


def test_files_of_a_process_stay_below_twice_the_limit(tmp_path: Path) -> None:
    with tracing(TelemetrySettings(trace_dir=tmp_path / "kept"), "embed") as tracer:
        span = tracer.start_span("span")
        span.end()
    exporter = JsonLinesExporter(tmp_path / "small", "embed", file_bytes=1_000)

    for _ in range(100):
        exporter.export([span])  # type: ignore[list-item]  # the SDK's spans are readable

    sizes = [file.stat().st_size for file in (tmp_path / "small").iterdir()]
    assert len(sizes) <= 2
    assert max(sizes) < 1_500


def test_files_of_old_processes_make_room(tmp_path: Path) -> None:
    for age in range(60):
        file = tmp_path / f"embed-{age}.jsonl"
        file.touch()
        os.utime(file, (1_000_000 - age, 1_000_000 - age))

    JsonLinesExporter(tmp_path, "embed")

    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"embed-{age}.jsonl" for age in range(40))


def test_a_directory_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Misconfigured, match="FREKI_TELEMETRY__TRACE_DIR"):
        JsonLinesExporter(tmp_path / "file" / "traces", "embed")


def test_without_any_destination_spans_still_have_ids_for_logs_and_headers() -> None:
    with tracing(TelemetrySettings(), "embed") as tracer:
        trace, _, _ = ids(tracer, "span", Context())

    assert int(trace, 16) > 0


def test_an_endpoint_that_nobody_listens_at_costs_no_file_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.infra.telemetry.traces._CLOSE_S", 0.3)
    monkeypatch.setattr("freki.infra.telemetry.traces._OTLP_TIMEOUT_S", 0.3)
    before = set(threading.enumerate())
    settings = TelemetrySettings(trace_dir=tmp_path, otlp_endpoint=NOBODY_LISTENS)

    with tracing(settings, "embed") as tracer:
        traces = [ids(tracer, "span", Context())[0] for _ in range(2_000)]

    assert len(read_trace(tmp_path, traces[-1])) == 1
    # The exporter draws its waits from `random`, which fails a property test that runs beside it.
    for thread in set(threading.enumerate()) - before:
        thread.join()


@pytest.mark.usefixtures("clean_logging")
def test_log_lines_name_the_trace_that_they_belong_to(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(TelemetrySettings(log_format="json"))

    with tracing(TelemetrySettings(), "embed") as tracer, tracer.start_as_current_span("span") as span:
        structlog.get_logger("freki.streams").warning("dead letter", stage="embed")
        logging.getLogger("aiokafka").warning("from a library")
    context = span.get_span_context()

    ours, theirs = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["stage"], ours["level"]) == ("dead letter", "embed", "warning")
    assert theirs["event"] == "from a library"
    assert {line["trace_id"] for line in (ours, theirs)} == {format_trace_id(context.trace_id)}


@pytest.mark.usefixtures("clean_logging")
@pytest.mark.parametrize("log_format", ["console", "json"])
def test_tracebacks_show_no_variables(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(TelemetrySettings.model_validate({"log_format": log_format}))

    def fail() -> None:
        text_of_a_document = "ü" * 3
        raise ValueError(len(text_of_a_document))

    try:
        fail()
    except ValueError:
        structlog.get_logger("freki").exception("failed")

    printed = capsys.readouterr().err
    assert "ValueError: 3" in printed
    assert "üüü" not in printed


@pytest.mark.usefixtures("clean_logging")
@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize(
    "reason",
    [
        Unavailable("the store is down"),
        Misconfigured("a right is missing"),
        GroupAuthorizationFailedError("freki-embed"),
    ],
)
def test_an_outage_and_a_missing_right_are_logged_in_one_line(
    reason: Exception, log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging(TelemetrySettings.model_validate({"log_format": log_format}))

    def fail() -> None:
        raise reason

    try:
        fail()
    except type(reason) as error:
        logging.getLogger("mode.services").exception("Crashed reason=%r", error)  # noqa: TRY401 - as Faust does

    (line,) = capsys.readouterr().err.splitlines()
    assert f"Crashed reason={reason!r}" in line


@pytest.mark.usefixtures("clean_logging")
def test_libraries_are_quiet_unless_something_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(TelemetrySettings(log_level="DEBUG"))

    logging.getLogger("aiokafka.consumer").info("rebalancing")

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("clean_logging")
def test_what_happens_whenever_workers_come_and_go_or_are_busy_is_no_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging(TelemetrySettings())

    coordinator = logging.getLogger("aiokafka.consumer.group_coordinator")
    coordinator.warning("Heartbeat failed for group %s because it is rebalancing", "freki-g1-embed")
    logging.getLogger("mode.timers").warning("Timer %s is overlapping (interval=%r runtime=%r)", "commit", 0.5, 0.54)
    coordinator.warning("Heartbeat failed: local member_id was not recognized; resetting and re-joining group")

    (line,) = capsys.readouterr().err.splitlines()
    assert "member_id was not recognized" in line


@pytest.mark.usefixtures("clean_logging")
def test_the_lines_that_are_no_warnings_are_those_of_the_libraries() -> None:
    """Under other words they would come through."""
    written = "".join(inspect.getsource(module) for module in (group_coordinator, timers))

    for line in ROUTINE:
        assert f'"{line}"' in written


@pytest.mark.usefixtures("clean_logging")
def test_an_outage_of_the_broker_does_not_fill_the_log_with_lines_of_its_client(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging(TelemetrySettings(log_format="json"))

    for node in range(1_000):
        logging.getLogger("aiokafka").error("Unable connect to node with id %s: %s", node, "refused")
        logging.getLogger("aiokafka.consumer.fetcher").error("Failed fetch messages from %s", node)
        logging.getLogger("freki.streams").error("not answered: %s", node)

    lines = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if "not answered" not in line] == [
        "Unable connect to node with id 0: refused",
        "Failed fetch messages from 0",
    ]
    assert len(lines) == 2 + LINES


@pytest.mark.usefixtures("clean_logging")
def test_an_outage_of_the_endpoint_of_traces_does_not_fill_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(TelemetrySettings(log_format="json"))
    # Each export to an endpoint that does not answer logs two lines of these, and a process exports every few seconds.
    for spans in range(1_000):
        logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").warning("Transient error %s", spans)
        logging.getLogger("opentelemetry.sdk._shared_internal").warning("Queue is full, likely %s", spans)

    lines = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["Transient error 0", "Queue is full, likely 0"]


def test_a_line_that_is_left_out_is_counted_in_the_next_one_of_its_kind() -> None:
    now_s = 0.0
    sparse = RateLimit("aiokafka", every_s=60.0, clock=lambda: now_s)
    shown = []
    for now_s in (0.0, 1.0, 59.0, 60.0, 61.0, 500.0, 501.0):
        record = logging.makeLogRecord({"name": "aiokafka", "msg": "no node %s", "args": ("100 %",)})
        if sparse.filter(record):
            shown.append((now_s, record.getMessage()))

    assert shown == [
        (0.0, "no node 100 %"),
        (60.0, "no node 100 % (2 more like this since the last one)"),
        (500.0, "no node 100 % (1 more like this since the last one)"),
    ]


@pytest.mark.usefixtures("clean_logging")
def test_a_million_bad_records_do_not_fill_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(TelemetrySettings(log_format="json"))
    log = structlog.get_logger("freki.streams.deliver.delivery")

    for offset in range(1_000):
        log.warning("dead letter", stage="chunk", offset=offset)
        for wanted in WANTED:
            log.info(wanted, query_id=str(offset))
    log.warning("retrying after a wait", stage="chunk")

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["offset"] for line in lines if line["event"] == "dead letter"] == list(range(LINES))
    assert Counter(line["event"] for line in lines if line["event"] in WANTED) == dict.fromkeys(WANTED, 1_000)
    assert lines[-1]["event"] == "retrying after a wait"


def test_lines_of_records_that_are_left_out_are_counted_in_the_next_one() -> None:
    now_s = 0.0
    sparse = RateLimit("freki", lines=2, every_s=60.0, clock=lambda: now_s)
    shown = []
    for now_s in (0.0, 1.0, 2.0, 3.0, 60.0, 61.0, 120.0):
        event = {"event": "dead letter", "offset": now_s}
        record = logging.makeLogRecord({"name": "freki.streams", "msg": event})
        if sparse.filter(record):
            told: Any = record.msg
            shown.append((now_s, told["event"]))

    assert shown == [
        (0.0, "dead letter"),
        (1.0, "dead letter"),
        (60.0, "dead letter (2 more like this since the last one)"),
        (61.0, "dead letter"),
        (120.0, "dead letter"),
    ]


def test_messages_with_values_in_them_do_not_grow_what_is_remembered() -> None:
    sparse = RateLimit("aiokafka")
    for number in range(3_000):
        sparse.filter(logging.makeLogRecord({"name": "aiokafka", "msg": f"no node {number}"}))

    assert len(sparse._last) <= 1_000


def _link(context: Context) -> Link:
    return Link(get_current_span(context).get_span_context())
