"""Export of the metrics of a process, to Prometheus and to an OTLP endpoint."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import Meter, NoOpMeter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from prometheus_client import CollectorRegistry, ProcessCollector

from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.traces import SCHEMA_URL

_OTLP_TIMEOUT_S = 3.0
_OTLP_EVERY_MS = 15_000
_CLOSE_S = 3.0


@contextmanager
def metering(settings: TelemetrySettings, component: str) -> Iterator[tuple[Meter, CollectorRegistry]]:
    """Yield the meter of this process, and the registry for scrapers.

    component: distinguishes the processes of a service, as in traces. Without any exporter nothing is recorded.
    """
    registry = CollectorRegistry()
    readers: list[MetricReader] = []
    if settings.http_port is not None:
        ProcessCollector(registry=registry)
        readers.append(PrometheusMetricReader(scope_info_enabled=False, registry=registry))
    if settings.otlp_endpoint is not None and settings.otlp_metrics:
        exporter = OTLPMetricExporter(f"{settings.otlp_endpoint.rstrip('/')}/v1/metrics", timeout=_OTLP_TIMEOUT_S)
        readers.append(PeriodicExportingMetricReader(exporter, export_interval_millis=_OTLP_EVERY_MS))
    if not readers:
        yield NoOpMeter("freki"), registry
        return
    resource = Resource.create({SERVICE_NAME: f"{settings.service_name}-{component}"})
    provider = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    try:
        yield provider.get_meter("freki", schema_url=SCHEMA_URL), registry
    finally:
        # In a thread: an endpoint that does not answer would block the shutdown for too long.
        closing = threading.Thread(target=provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
