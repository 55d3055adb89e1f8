import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from prometheus_client import CollectorRegistry

from deploy.metrics import SERIES
from freki.infra.models.vectors import VectorCache
from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.calls import Calls
from freki.infra.telemetry.metrics import metering
from freki.schemas import ContextResult, IndexOutcome, LlmUse, Notice, NoticeKind, OutcomeStatus, StageTime, Timestamp
from freki.schemas.identity import RefusalReason
from freki.schemas.limits import LimitKind
from freki.schemas.names import FIRST_YEAR_MS
from freki.streams.observe.meters import Meters, PartitionBacklog, StageBacklog
from tests.strategies import records

RULES_TEST = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.test.yml"
BOUND = re.compile(r'series: (\w+_bucket)\{[^}]*le="([^"]+)"')
NOT_OURS = ("target_info", "process_virtual_memory_bytes", "process_open_fds", "process_max_fds")


def served(registry: CollectorRegistry) -> Mapping[str, frozenset[str]]:
    """Give every series with all labels that it may have."""
    found: dict[str, frozenset[str]] = {}
    for metric in registry.collect():
        for sample in metric.samples:
            found[sample.name] = found.get(sample.name, frozenset()) | sample.labels.keys()
    return {name: labels for name, labels in found.items() if name not in NOT_OURS}


CACHE = VectorCache("model", 1_000)


def everything_happens(meters: Meters, calls: Calls, outcome: IndexOutcome, result: ContextResult) -> None:
    meters.count_receipt(
        replace(
            outcome,
            status=OutcomeStatus.INDEXED,
            occurred_at=Timestamp(FIRST_YEAR_MS),
            searchable_at=Timestamp(2_000),
            chunks=2,
            embedded=1,
        )
    )
    meters.count_result(
        replace(
            result,
            stages=(StageTime(stage="rerank", milliseconds=3.0, items=8),),
            notices=(Notice(kind=NoticeKind.SKIPPED, stage="augment", message="no time was left"),),
        )
    )
    meters.count_llm_use(
        LlmUse(written=3, kept=2, missing=1, reason="", prompt_tokens=9, cached_tokens=5, completion_tokens=4)
    )
    meters.count_unranked(3)
    meters.count_refused_query(RefusalReason.EXPIRED)
    meters.count_over_limit(LimitKind.QUERIES)
    meters.set_circuit_open("embed", resting=True)
    meters.count_skipped_call("embed")
    meters.record_batch("embed", records=8, max_records=32, seconds=0.1, failed=False)
    meters.count_retry("embed", OSError())
    meters.count_dead_letter("chunk", ValueError())
    meters.count_lost("chunk", 1)
    meters.count_audited(1)
    meters.count_unaudited(1)
    meters.count_reload(refused=True)
    meters.observe_stages(
        lambda: {"embed": StageBacklog((PartitionBacklog("topic", 0, records=1, age_s=2.0),), idle_s=1.0)}
    )
    meters.observe_build_info(lambda: {"version": "1", "generation": "g1", "embedder": "e", "reranker": "r"})
    calls.computed("embeddings", "model", tokens=100, seconds=0.1)
    calls.charged("m", 0.1)
    calls.looked_up("rerank", hits=1, misses=1)
    calls.evicted("answers", 1)
    calls.watch("passages", CACHE)
    calls.called("search", "chunks", seconds=0.1, error=OSError())


@settings(max_examples=5)
@given(outcome=records(IndexOutcome), result=records(ContextResult))
def test_dashboards_and_rules_know_exactly_what_workers_serve(outcome: IndexOutcome, result: ContextResult) -> None:
    with metering(TelemetrySettings(http_port=0), "test") as (meter, registry):
        everything_happens(Meters(meter), Calls(meter), outcome, result)

        found = served(registry)

    assert found == SERIES


@settings(max_examples=1)
@given(outcome=records(IndexOutcome), result=records(ContextResult))
def test_tests_of_rules_have_only_bounds_of_buckets_that_workers_have(
    outcome: IndexOutcome, result: ContextResult
) -> None:
    with metering(TelemetrySettings(http_port=0), "test") as (meter, registry):
        everything_happens(Meters(meter), Calls(meter), outcome, result)
        samples = [sample for metric in registry.collect() for sample in metric.samples if "le" in sample.labels]
        bounds = {(sample.name, float(sample.labels["le"])) for sample in samples}

    tested = {(name, float(bound)) for name, bound in BOUND.findall(RULES_TEST.read_text(encoding="utf-8"))}
    assert tested
    assert tested <= bounds
