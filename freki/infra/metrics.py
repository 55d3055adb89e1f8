"""Where the figures of a process go: to whoever scrapes it, and to an OTLP endpoint; and those of its adapters."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import Histogram, Meter, NoOpMeter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from prometheus_client import CollectorRegistry, ProcessCollector

from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry import SCHEMA_URL

_OTLP_TIMEOUT_S = 3.0
_OTLP_EVERY_MS = 15_000
_CLOSE_S = 3.0
_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Calls:
    """Counts and times what adapters ask of models and store. Cheap, and safe in any thread."""

    def __init__(self, meter: Meter | None = None) -> None:
        """Make the instruments; without a meter they forget what they are told."""
        meter = meter or NoOpMeter("freki")
        self._lookups = meter.create_counter("freki.cache.lookups", description="Lookups in a cache")
        self._models = _seconds(meter, "gen_ai.client.operation.duration", "A call of a model")
        self._tokens = meter.create_counter("freki.model.tokens", description="Tokens that went through a model")
        self._store = _seconds(meter, "db.client.operation.duration", "A call of the store, with its attempts")

    def computed(self, operation: str, model: str, *, tokens: int, seconds: float) -> None:
        """Time a call of a model; operation: `embeddings` or `rerank`."""
        attributes = {"gen_ai.operation.name": operation, "gen_ai.request.model": model}
        self._models.record(seconds, attributes)
        self._tokens.add(tokens, attributes)

    def looked_up(self, cache: str, *, hits: int, misses: int) -> None:
        """Count lookups in a cache."""
        self._lookups.add(hits, {"cache": cache, "outcome": "hit"})
        self._lookups.add(misses, {"cache": cache, "outcome": "miss"})

    def called(self, operation: str, collection: str, *, seconds: float, error: BaseException | None) -> None:
        """Time a call of the store."""
        attributes = {"db.system.name": "milvus", "db.operation.name": operation, "db.collection.name": collection}
        if error is not None:
            attributes["error.type"] = type(error).__qualname__
        self._store.record(seconds, attributes)


def _seconds(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=_CALL_S)


@contextmanager
def metering(settings: TelemetrySettings, component: str) -> Iterator[tuple[Meter, CollectorRegistry]]:
    """Give the meter of this process, and the registry that scrapers read.

    `component` tells the processes of a service apart, as with traces. Where nobody may ask, nothing is kept.
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
        # In a thread, since an endpoint that does not answer holds it up for longer than anyone waits.
        closing = threading.Thread(target=provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
