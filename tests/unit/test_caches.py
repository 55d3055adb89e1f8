import json
import weakref
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NoOpTracer

from freki.infra.caches import BoundedCache
from freki.infra.settings import RetrievalSettings, Settings
from freki.infra.telemetry.calls import Calls
from freki.streams.observe.meters import Meters
from freki.streams.wire.parts import Parts
from freki.streams.wire.query_parts import QueryParts


class Counted(Calls):
    def __init__(self) -> None:
        super().__init__()
        self.hits = self.misses = self.gone = 0

    def looked_up(self, cache: str, *, hits: int, misses: int) -> None:
        assert cache == "c"
        self.hits += hits
        self.misses += misses

    def evicted(self, cache: str, entries: int) -> None:
        assert cache == "c"
        self.gone += entries


keys = st.tuples(st.sampled_from("ab"), st.integers(0, 5))
steps = st.lists(st.tuples(keys, st.integers(0, 3000), st.integers(0, 4)), max_size=40)


@given(steps=steps, most_bytes=st.integers(0, 6000), seconds=st.integers(1, 6))
def test_it_holds_no_more_than_its_bytes_and_gives_only_what_was_last_kept(
    steps: list[tuple[Any, int, int]], most_bytes: int, seconds: int
) -> None:
    now, calls = 0.0, Counted()
    cache = BoundedCache[int]("c", most_bytes=most_bytes, seconds=seconds, calls=calls, timer=lambda: now)
    last: dict[Any, tuple[int, float]] = {}
    for place, (key, size, waited) in enumerate(steps):
        now += waited
        found = cache.get(key)
        # An answer too large to be kept leaves the one before it, which the same key gave.
        assert found is None or (found == last[key][0] and now < last[key][1] + seconds)
        cache.keep(key, place, size=size)
        if size + 512 <= most_bytes:
            last[key] = (place, now)
        assert cache.held_bytes <= most_bytes
    assert calls.hits + calls.misses == len(steps)


def test_what_had_to_go_is_counted() -> None:
    calls = Counted()
    cache = BoundedCache[str]("c", most_bytes=2000, seconds=10, calls=calls)

    for key in "abcd":
        cache.keep(key, key, size=100)

    assert (calls.gone, cache.get("a"), cache.get("d")) == (1, None, "d")


def held(reader: InMemoryMetricReader) -> dict[str, float]:
    data = reader.get_metrics_data()
    found = {"resource_metrics": []} if data is None else json.loads(data.to_json())
    return {
        point["attributes"]["cache"]: point["value"]
        for resource in found["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
        if metric["name"] == "freki.cache.held"
        for point in metric["data"]["data_points"]
    }


def test_caches_of_one_name_are_measured_together_as_long_as_they_are_there() -> None:
    reader = InMemoryMetricReader()
    calls = Calls(MeterProvider([reader]).get_meter("freki"))
    first, second = (BoundedCache[str]("pages", most_bytes=2000, seconds=10, calls=calls) for _ in range(2))

    first.keep("a", "a", size=100)
    second.keep("b", "b", size=200)
    both = held(reader)
    del first
    one = held(reader)

    assert (both, one) == ({"pages": 2 * 512 + 300}, {"pages": 512 + 200})


def test_whoever_reads_the_size_changes_nothing() -> None:
    # The thread that exports metrics reads it, and entries belong to another one.
    now = 0.0
    cache = BoundedCache[str]("c", most_bytes=2000, seconds=10, timer=lambda: now)
    cache.keep("a", "a", size=100)
    held_bytes = cache.held_bytes

    now = 20.0

    assert cache.held_bytes == held_bytes > 100
    assert cache.get("a") is None
    assert cache.held_bytes == 0


def test_answers_by_settings_of_before_are_let_go_by_a_reload() -> None:
    settings = Settings(retrieval=RetrievalSettings(cache_mb=8))
    parts = QueryParts(Parts(settings, NoOpTracer(), Meters(), Calls()))
    answers = weakref.ref(parts._open_caches().answers)

    parts._renewed_answers()

    assert answers() is None


def test_keys_that_differ_in_one_part_share_nothing() -> None:
    cache = BoundedCache[str]("c", most_bytes=2000, seconds=10)
    cache.keep(("tenant", ("anna",), "question"), "answer", size=1)

    assert cache.get(("tenant", (), "question")) is None
    assert cache.get(("tenant", ("anna", "board"), "question")) is None
    assert cache.get(("tenant", ("anna",), "question")) == "answer"


def test_what_expired_is_let_go_by_the_next_question() -> None:
    class Value:
        pass

    now, value = 0.0, Value()
    cache = BoundedCache[Value]("c", most_bytes=2000, seconds=10, timer=lambda: now)
    cache.keep("a", value, size=100)
    held = weakref.ref(value)
    del value
    assert held() is not None
    now = 10.0

    assert cache.get("b") is None

    assert held() is None
