"""Log output of a process."""

import logging
import sys

import stamina.instrumentation
import structlog
from opentelemetry.trace import format_span_id, format_trace_id, get_current_span
from structlog.typing import EventDict, Processor, WrappedLogger

from freki.infra.settings import TelemetrySettings
from freki.schemas.errors import Unavailable
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
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _mask(_logger: WrappedLogger, _method: str, line: object) -> str:
    """Mask the credentials in URLs of a rendered line, since libraries log and tracebacks quote them."""
    return masked(str(line))


def _without_traceback(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Leave out the traceback of an outage: its message says all, and Faust logs an error that ends the process too."""
    raised = event.get("exc_info")
    if isinstance(raised, tuple) and isinstance(raised[1], Unavailable):
        del event["exc_info"]
    return event


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    context = get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = format_trace_id(context.trace_id)
        event["span_id"] = format_span_id(context.span_id)
    return event
