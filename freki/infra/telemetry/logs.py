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
"""Interval of lines of a kind of the clients of Kafka and of OTLP, in seconds: in an outage they log each attempt."""


ROUTINE = (
    "Heartbeat failed for group %s because it is rebalancing",
    "Timer %s is overlapping (interval=%r runtime=%r)",
)
"""Warnings of libraries about normal events that need no action: a worker came or went, and the others join again; a
commit took longer than the interval of commits, and the next one is later."""


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return record.msg not in ROUTINE


class RateLimit(logging.Filter):
    """Lets one line of each kind through in an interval, which counts those that it left out since the last one.

    A kind is a logger with a level, a message without its values, and the type of an exception.
    """

    def __init__(self, of: str, *, every_s: float = REPEAT_S, clock: Callable[[], float] = time.monotonic) -> None:
        """Filter the lines of the logger `of` and those below it; all others pass."""
        super().__init__(of)
        self._every_s = every_s
        self._clock = clock
        self._last: dict[tuple[object, ...], tuple[float, int]] = {}
        """Time of the last line of a kind that passed, and the number of those left out since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line passes."""
        if not super().filter(record):
            return True
        raised = record.exc_info[0] if record.exc_info else None
        kind, now_s = (record.name, record.levelno, str(record.msg), raised), self._clock()
        at_s, left_out = self._last.get(kind, (-math.inf, 0))
        if now_s - at_s < self._every_s:
            self._last[kind] = at_s, left_out + 1
            return False
        self._last[kind] = now_s, 0
        if left_out:
            record.msg = f"{record.msg} ({left_out} more like this since the last one)"
        return True


def mute_libraries() -> None:
    """Suppress what libraries log of failures that they also raise: commands print the raised error."""
    for name in ("aiokafka", "kafka"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    stamina.instrumentation.set_on_retry_hooks(())


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
    # Plain tracebacks: rich ones print local variables, and so the text of documents.
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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers, _mask],
        )
    )
    handler.addFilter(_is_worth_a_line)
    for client in ("aiokafka", "opentelemetry"):
        handler.addFilter(RateLimit(client))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


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
