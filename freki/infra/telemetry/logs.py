"""Log output of a process."""

import logging
import math
import sys
import time
from collections.abc import Callable

import stamina.instrumentation
import structlog
from opentelemetry.trace import format_span_id, format_trace_id, get_current_span
from structlog.typing import EventDict, Processor, WrappedLogger

from freki.infra.settings import TelemetrySettings
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.masking import masked

_CHATTY = (
    "aiokafka",
    "freki.infra.kafka.app",
    "freki.infra.kafka.consumer",
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

REPEAT_S = 60.0
"""Interval in which lines of a kind are limited, in seconds."""
LINES = 20
"""Lines of a kind of Freki in an interval: many are about one record, and a million bad ones would fill the disk."""
WANTED = frozenset({"candidates not shown", "chunks dropped"})
"""Lines that are there for every query: why a chunk is not in an answer is looked up in them."""
_KINDS = 1_000
"""Kinds that are remembered."""


ROUTINE = (
    "Heartbeat failed for group %s because it is rebalancing",
    "Timer %s is overlapping (interval=%r runtime=%r)",
)
"""Warnings of libraries about normal events that need no action: a worker came or went, and the others join again; a
commit took longer than the interval of commits, and the next one is later."""


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return record.msg not in ROUTINE


class RateLimit(logging.Filter):
    """Lets some lines of each kind through in an interval, the first of which counts those left out in the last one.

    A kind is a logger with a level, a message without its values, and the type of an exception.
    """

    def __init__(
        self, of: str, *, lines: int = 1, every_s: float = REPEAT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Filter the lines of the logger `of` and those below it; all others pass."""
        super().__init__(of)
        self._lines = lines
        self._every_s = every_s
        self._clock = clock
        self._last: dict[tuple[object, ...], tuple[float, int]] = {}
        """Time of the first line of a kind in its interval, and the number of lines since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line passes."""
        message = record.msg["event"] if isinstance(record.msg, dict) else record.msg
        if not super().filter(record) or message in WANTED:
            return True
        raised = record.exc_info[0] if record.exc_info else None
        kind, now_s = (record.name, record.levelno, str(message), raised), self._clock()
        at_s, lines = self._last.get(kind, (-math.inf, 0))
        if now_s - at_s < self._every_s:
            self._last[kind] = at_s, lines + 1
            return lines < self._lines
        # The latest last: some libraries write values into their messages, each of which would be a kind for ever.
        self._last.pop(kind, None)
        self._last[kind] = now_s, 1
        if len(self._last) > _KINDS:
            del self._last[next(iter(self._last))]
        if (left_out := lines - self._lines) > 0:
            _add(record, f"{left_out} more like this since the last one")
        return True


def _add(record: logging.LogRecord, note: str) -> None:
    if isinstance(record.msg, dict):
        record.msg = {**record.msg, "event": f"{record.msg['event']} ({note})"}
    else:
        record.msg = f"{record.msg} ({note})"


def set_up_command_logging() -> None:
    """Send log output of a command to standard error: standard output is for its result, which programs read.

    What libraries log of failures that they also raise is suppressed: commands print the raised error.
    """
    for name in ("aiokafka", "kafka"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    stamina.instrumentation.set_on_retry_hooks(())
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            _without_traceback,
            _plain(),
            _mask,
        ],
        # The stream as it is when a line is written: tests and embedding programs replace it.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def set_up_logging(settings: TelemetrySettings) -> None:
    """Send all log output to standard error, with trace and span ids; retries are logged too."""
    stamina.instrumentation.set_on_retry_hooks(None)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
        _without_traceback,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    renderers: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [_plain()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers, _mask],
        )
    )
    handler.addFilter(_is_worth_a_line)
    # The clients of Kafka and of OTLP log each attempt in an outage.
    for client in ("aiokafka", "kafka", "opentelemetry"):
        handler.addFilter(RateLimit(client))
    handler.addFilter(RateLimit("freki", lines=LINES))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _plain() -> Processor:
    """Return a renderer for people, with plain tracebacks: rich ones print local variables, so texts of documents."""
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)


def _mask(_logger: WrappedLogger, _method: str, line: object) -> str:
    """Mask the credentials in URLs of a rendered line, since libraries log and tracebacks quote them."""
    return masked(str(line))


def _without_traceback(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Leave out the traceback of an outage, of a wrong setting, and of what a broker refuses: the message says all.

    Faust logs an error that ends the process twice, and the command says what to do.
    """
    raised = event.get("exc_info")
    if not isinstance(raised, tuple):
        return event
    if isinstance(raised[1], (Unavailable, Misconfigured)) or _is_from_broker(raised[1]):
        del event["exc_info"]
    return event


def _is_from_broker(error: object) -> bool:
    # By name: commands that ask no broker load none of its clients.
    return "BrokerResponseError" in {kind.__name__ for kind in type(error).__mro__}


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    context = get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = format_trace_id(context.trace_id)
        event["span_id"] = format_span_id(context.span_id)
    return event
