import math
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from freki.infra.telemetry.calls import Calls
from freki.schemas import ContextResult, DocumentId, IndexOutcome, LlmUse, OutcomeStatus, TenantId, Timestamp
from freki.schemas.names import FIRST_YEAR_MS
from freki.streams.observe.meters import Meters
from freki.streams.wire.overview import quantile
from tests.strategies import records

SAMPLE = "Geheimsache"


class Reading:
    """Meters, and what they say."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        meter = MeterProvider([self._reader]).get_meter("test")
        self.meters, self.calls = Meters(meter), Calls(meter)

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Give attributes and value of each series: a number, or count and sum of a histogram."""
        return [
            (dict(point.attributes or {}), point.value if hasattr(point, "value") else (point.count, point.sum))
            for point in self._data_points(name)
        ]

    def buckets(self, name: str, **attributes: str) -> dict[float, float]:
        """Give the cumulative counts of a histogram's only series with these attributes, by upper bound."""
        [point] = [each for each in self._data_points(name) if attributes.items() <= dict(each.attributes).items()]
        return dict(zip((*point.explicit_bounds, math.inf), accumulate(point.bucket_counts), strict=True))

    def _data_points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        metrics = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def reading() -> Reading:
    return Reading()


def outcome(
    status: OutcomeStatus, *, embedded_at: int | None = 3_000, searchable_at: int | None = 3_500
) -> IndexOutcome:
    return IndexOutcome(
        tenant=TenantId(SAMPLE),
        document_id=DocumentId(SAMPLE),
        version=1,
        status=status,
        reason=SAMPLE,
        generation="g1",
        chunks=7,
        embedded=5,
        removed=0,
        tokens=900,
        occurred_at=Timestamp(200),
        recorded_at=Timestamp(1_000),
        received_at=Timestamp(1_500),
        embedded_at=None if embedded_at is None else Timestamp(embedded_at),
        searchable_at=None if searchable_at is None else Timestamp(searchable_at),
    )


def test_freshness_is_told_in_total_and_by_section(reading: Reading) -> None:
    reading.meters.count_receipt(outcome(OutcomeStatus.INDEXED))

    found = {attributes["section"]: value for attributes, value in reading.points("freki.freshness")}
    assert found == {"total": (1, 2.5), "received": (1, 0.5), "embedded": (1, 1.5), "searchable": (1, 0.5)}


def test_sections_add_up_to_the_total_also_where_nothing_was_embedded(reading: Reading) -> None:
    reading.meters.count_receipt(outcome(OutcomeStatus.DELETED, embedded_at=None))

    found = {attributes["section"]: value[1] for attributes, value in reading.points("freki.freshness")}
    total = found.pop("total")
    assert sum(found.values()) == total == 2.5


@pytest.mark.parametrize("seconds", [15, 25, 40, 65, 100, 150, 200, 400, 700])
def test_a_long_wait_is_shown_as_about_as_long_as_it_was(reading: Reading, seconds: int) -> None:
    reading.meters.count_receipt(outcome(OutcomeStatus.INDEXED, searchable_at=1_000 + seconds * 1_000))

    assert seconds / 2 <= quantile(reading.buckets("freki.freshness", section="total"), 0.5) <= seconds * 2


@pytest.mark.parametrize("hours", [1, 6, 20, 24 * 5, 24 * 25, 24 * 300])
def test_a_file_that_was_modified_long_ago_is_shown_as_about_as_old_as_it_is(reading: Reading, hours: int) -> None:
    recorded = FIRST_YEAR_MS + hours * 3_600_000
    late = replace(
        outcome(OutcomeStatus.INDEXED), occurred_at=Timestamp(FIRST_YEAR_MS), recorded_at=Timestamp(recorded)
    )

    reading.meters.count_receipt(late)

    assert hours / 5 <= quantile(reading.buckets("freki.source.delay"), 0.5) / 3_600 <= hours * 5


@pytest.mark.parametrize(("seconds", "slow"), [(1.2, False), (1.9, False), (2.1, True)])
@settings(max_examples=1)
@given(result=records(ContextResult))
def test_queries_are_shown_as_slower_than_the_limit_of_the_alert_only_where_they_are(
    result: ContextResult, seconds: float, *, slow: bool
) -> None:
    reading, asked = Reading(), FIRST_YEAR_MS
    timed = replace(result, asked_at=Timestamp(asked), answered_at=Timestamp(asked + int(1_000 * seconds)))

    reading.meters.count_result(timed)

    assert (quantile(reading.buckets("freki.query.duration"), 0.95) > 2) is slow


@pytest.mark.parametrize("seconds", [200, 500, 1_500, 3_000])
def test_a_long_batch_is_shown_as_about_as_long_as_it_was(reading: Reading, seconds: int) -> None:
    reading.meters.record_batch("contextualise", records=1, max_records=1, seconds=seconds, failed=False)

    assert seconds / 2 <= quantile(reading.buckets("freki.batch.duration"), 0.5) <= seconds * 2


@pytest.mark.parametrize("status", [OutcomeStatus.STALE, OutcomeStatus.REJECTED])
def test_what_never_becomes_searchable_has_no_freshness(reading: Reading, status: OutcomeStatus) -> None:
    reading.meters.count_receipt(outcome(status, embedded_at=None, searchable_at=None))

    assert reading.points("freki.freshness") == []
    assert reading.points("freki.outcomes") == [({"status": status}, 1)]


def test_what_was_there_already_does_not_make_freshness_look_better(reading: Reading) -> None:
    reading.meters.count_receipt(outcome(OutcomeStatus.UNCHANGED))

    assert reading.points("freki.freshness") == []


def test_a_clock_that_is_ahead_makes_no_change_younger_than_nothing(reading: Reading) -> None:
    early = outcome(OutcomeStatus.DELETED, embedded_at=None, searchable_at=500)

    reading.meters.count_receipt(early)

    assert all(value[1] >= 0 for _, value in reading.points("freki.freshness"))


def test_the_time_at_the_source_is_told_where_it_is_known(reading: Reading) -> None:
    counter = outcome(OutcomeStatus.INDEXED)
    known = replace(counter, occurred_at=Timestamp(FIRST_YEAR_MS), recorded_at=Timestamp(FIRST_YEAR_MS + 500))

    reading.meters.count_receipt(counter)
    reading.meters.count_receipt(known)

    assert reading.points("freki.source.delay") == [({}, (1, 0.5))]


def test_no_label_names_a_tenant_a_document_or_what_an_error_says(reading: Reading) -> None:
    reading.meters.count_receipt(outcome(OutcomeStatus.REJECTED, embedded_at=None, searchable_at=None))
    reading.meters.count_dead_letter("chunk", ValueError(SAMPLE))
    reading.meters.count_retry("embed", OSError(SAMPLE))
    reading.calls.called("search", "chunks", seconds=0.1, error=OSError(SAMPLE))

    names = ("freki.outcomes", "freki.dead_letters", "freki.retries", "db.client.operation.duration")
    labels = [attributes for name in names for attributes, _ in reading.points(name)]
    assert len(labels) == len(names)
    assert SAMPLE not in repr(labels)


def test_a_batch_that_failed_counts_no_records(reading: Reading) -> None:
    reading.meters.record_batch("embed", records=8, max_records=32, seconds=0.5, failed=True)
    reading.meters.record_batch("embed", records=16, max_records=32, seconds=0.5, failed=False)

    assert reading.points("freki.records") == [({"stage": "embed"}, 16)]
    assert reading.points("freki.batch.fill") == [({"stage": "embed"}, (2, 0.75))]


def test_contexts_and_tokens_of_a_language_model_are_counted_by_what_became_of_them(reading: Reading) -> None:
    use = LlmUse(
        written=5, kept=3, missing=2, reason=SAMPLE, prompt_tokens=900, cached_tokens=700, completion_tokens=60
    )

    reading.meters.count_llm_use(use)
    reading.meters.count_llm_use(use)

    contexts = {labels["outcome"]: value for labels, value in reading.points("freki.contexts")}
    tokens = {labels["gen_ai.token.type"]: value for labels, value in reading.points("freki.llm.tokens")}
    assert contexts == {"written": 10, "kept": 6, "missing": 4}
    assert tokens == {"input": 1800, "cached": 1400, "output": 120}
