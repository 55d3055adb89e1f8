"""Metrics of calls to models and store. Uses only the API of OpenTelemetry."""

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import Protocol
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, NoOpMeter, Observation

_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class SizedCache(Protocol):
    """A cache."""

    @property
    def held_bytes(self) -> int:
        """Size of all entries. The thread that exports metrics reads it."""


class Calls:
    """Counts and times calls of adapters to models and store. Cheap and thread-safe."""

    def __init__(self, meter: Meter | None = None) -> None:
        """Create the instruments; without a meter they do nothing."""
        meter = meter or NoOpMeter("freki")
        self._lookups = meter.create_counter("freki.cache.lookups", description="Lookups in a cache")
        self._evictions = meter.create_counter(
            "freki.cache.evictions", description="Entries of a cache that had to go for others"
        )
        self._caches: WeakKeyDictionary[SizedCache, str] = WeakKeyDictionary()
        self._caches_lock = Lock()
        meter.create_observable_gauge(
            "freki.cache.held", [self._held], "By", "Bytes that caches of a name hold together"
        )
        self._models = _seconds(meter, "gen_ai.client.operation.duration", "A call of a model")
        self._tokens = meter.create_counter("freki.model.tokens", description="Tokens that went through a model")
        self._cost = meter.create_counter("freki.model.cost", description="Price of the tokens of a service, as set")
        self._store = _seconds(meter, "db.client.operation.duration", "A call of the store, with its attempts")

    def computed(self, operation: str, model: str, *, tokens: int, seconds: float) -> None:
        """Record a call of a model; operation: `embeddings`, `rerank` or `chat`."""
        attributes = {"gen_ai.operation.name": operation, "gen_ai.request.model": model}
        self._models.record(seconds, attributes)
        self._tokens.add(tokens, attributes)

    def charged(self, model: str, cost: float) -> None:
        """Count what a service charges, in the currency of its price; 0: nothing."""
        if cost:
            self._cost.add(cost, {"gen_ai.request.model": model})

    def looked_up(self, cache: str, *, hits: int, misses: int) -> None:
        """Count lookups in a cache."""
        self._lookups.add(hits, {"cache": cache, "outcome": "hit"})
        self._lookups.add(misses, {"cache": cache, "outcome": "miss"})

    def evicted(self, cache: str, entries: int) -> None:
        """Count evicted entries of a cache."""
        self._evictions.add(entries, {"cache": cache})

    def watch(self, name: str, cache: SizedCache) -> None:
        """Count the size of a cache as long as there is one; each open generation has its own of the same name."""
        with self._caches_lock:
            self._caches[cache] = name

    def _held(self, _: CallbackOptions) -> Iterable[Observation]:
        held: Counter[str] = Counter()
        with self._caches_lock:
            caches = list(self._caches.items())
        for cache, name in caches:
            held[name] += cache.held_bytes
        return [Observation(size, {"cache": name}) for name, size in held.items()]

    def called(self, operation: str, collection: str, *, seconds: float, error: BaseException | None) -> None:
        """Record a call of the store."""
        attributes = {"db.system.name": "milvus", "db.operation.name": operation, "db.collection.name": collection}
        if error is not None:
            attributes["error.type"] = type(error).__qualname__
        self._store.record(seconds, attributes)


def _seconds(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=_CALL_S)
