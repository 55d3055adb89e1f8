"""Counters, gauges and histograms of the pipeline.

Names follow OpenTelemetry's semantic conventions where these define one. No label holds the name of a tenant, document
or user: each new label value is another time series.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, NoOpMeter, Observation

from freki.schemas import ContextResult, IndexOutcome, LlmUse, OutcomeStatus
from freki.schemas.identity import RefusalReason
from freki.schemas.limits import LimitKind
from freki.schemas.names import is_known

_FRESHNESS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 1800)
_SOURCE_S = (*_FRESHNESS_S, 3_600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000)
"""Of files it is the time since they were modified: up to a year."""
_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 2.5, 5, 10, 30, 120)
"""With the 2 s of the alert FrekiQueriesSlow: within a bucket a quantile is only estimated."""
_BATCH_S = (*_CALL_S, 300, 600, 1_800, 3_600)
"""A language model may write for a batch for an hour."""
_SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
_HITS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 200)


class PartitionBacklog(NamedTuple):
    """Lag of a stage in one partition."""

    topic: str
    partition: int
    records: int
    """Unfinished records."""
    age_s: float
    """Maximum age of the oldest of them, in seconds; 0 if there is none."""


class StageBacklog(NamedTuple):
    """Lag and idle time of a stage."""

    waiting: tuple[PartitionBacklog, ...]
    idle_s: float
    """Seconds since the stage last finished a batch while records wait; else 0."""


class Meters:
    """All instruments, with one method per event. Cheap and thread-safe."""

    def __init__(self, meter: Meter | None = None) -> None:
        """Create the instruments; without a meter they do nothing."""
        self._meter = meter = meter or NoOpMeter("freki")
        self._freshness = meter.create_histogram(
            "freki.freshness",
            "s",
            "Time from the broker until a change was visible, in total and by section",
            explicit_bucket_boundaries_advisory=_FRESHNESS_S,
        )
        self._source = meter.create_histogram(
            "freki.source.delay",
            "s",
            "Time from the event until the broker had the change: the producer's delay",
            explicit_bucket_boundaries_advisory=_SOURCE_S,
        )
        self._outcomes = meter.create_counter("freki.outcomes", description="Receipts of changes")
        self._embedded = meter.create_counter("freki.chunks.embedded", description="Chunks that were embedded")
        self._indexed = meter.create_counter(
            "freki.chunks.indexed", description="Chunks of revisions that became visible"
        )
        self._contexts = meter.create_counter(
            "freki.contexts", description="Chunks for which a language model should write a context or summary"
        )
        self._llm_tokens = meter.create_counter(
            "freki.llm.tokens", description="Tokens of the language model; `cached` ones are among `input`"
        )
        self._letters = meter.create_counter("freki.dead_letters", description="Records that could not be processed")
        self._retries = meter.create_counter("freki.retries", description="Retries while a service is unavailable")
        self._batches = self._seconds("freki.batch.duration", "Duration of a batch in a stage", _BATCH_S)
        self._fill = meter.create_histogram(
            "freki.batch.fill",
            "1",
            "Records of a batch divided by its maximum",
            explicit_bucket_boundaries_advisory=_SHARES,
        )
        self._records = meter.create_counter("freki.records", description="Records that a stage has finished")
        self._lost = meter.create_counter(
            "freki.records.lost", description="Records that retention dropped before a stage read them"
        )
        self._steps = self._seconds("freki.step.duration", "Duration of a retrieval step, for a batch of queries")
        self._queries = self._seconds("freki.query.duration", "Time from query to result")
        self._answers = meter.create_counter(
            "freki.answers", description="Answers, by whether some hit seems to answer the query"
        )
        self._refused = meter.create_counter(
            "freki.queries.refused", description="Queries whose token did not allow them"
        )
        self._over_limit = meter.create_counter(
            "freki.over_limit", description="Changes and queries that a limit of their tenant refused"
        )
        self._audited = meter.create_counter("freki.audit.entries", description="Entries in the file of the audit log")
        self._unaudited = meter.create_counter(
            "freki.audit.unwritten", description="Entries of the audit log that could not be written"
        )
        self._reloads = meter.create_counter(
            "freki.settings.reloads", description="Changes of the settings of a running process, by what became of them"
        )
        self._refused_settings = meter.create_gauge(
            "freki.settings.refused", description="1 while the settings in the file are refused, else 0"
        )
        self._notices = meter.create_counter("freki.notices", description="Notices in results")
        self._skipped = meter.create_counter(
            "freki.candidates.skipped", description="Candidates not reranked because of the deadline"
        )
        self._open = meter.create_gauge(
            "freki.breaker.open", description="1 while the circuit breaker of a step or service is open, else 0"
        )
        self._left_out = meter.create_counter(
            "freki.breaker.left_out", description="Calls that were not made because the circuit breaker was open"
        )
        self._hits = meter.create_histogram(
            "freki.hits", description="Hits of a result", explicit_bucket_boundaries_advisory=_HITS
        )

    def count_receipt(self, outcome: IndexOutcome, *, is_fresh: bool = True) -> None:
        """Count a receipt, and record the freshness of its change if that is new."""
        self._outcomes.add(1, {"status": outcome.status})
        if outcome.status is OutcomeStatus.INDEXED:
            self._embedded.add(outcome.embedded)
            self._indexed.add(outcome.chunks)
        if not is_fresh or outcome.searchable_at is None or outcome.status is OutcomeStatus.UNCHANGED:
            return
        if is_known(outcome.occurred_at):
            self._source.record(max(0, outcome.recorded_at - outcome.occurred_at) / 1000)
        embedded_at = outcome.embedded_at or outcome.received_at
        for section, start, end in (
            ("total", outcome.recorded_at, outcome.searchable_at),
            ("received", outcome.recorded_at, outcome.received_at),
            ("embedded", outcome.received_at, embedded_at),
            ("searchable", embedded_at, outcome.searchable_at),
        ):
            # The broker's clock may be ahead of this one.
            self._freshness.record(max(0, end - start) / 1000, {"section": section, "status": outcome.status})

    def count_llm_use(self, use: LlmUse) -> None:
        """Count the contexts and tokens of a language model for a part of a revision."""
        for outcome, chunks in (("written", use.written), ("kept", use.kept), ("missing", use.missing)):
            self._contexts.add(chunks, {"outcome": outcome})
        for kind, tokens in (
            ("input", use.prompt_tokens),
            ("cached", use.cached_tokens),
            ("output", use.completion_tokens),
        ):
            self._llm_tokens.add(tokens, {"gen_ai.token.type": kind})

    def count_result(self, result: ContextResult) -> None:
        """Count a result, and record its latency and that of its steps."""
        self._queries.record(max(0, result.answered_at - result.asked_at) / 1000, {"status": result.status})
        self._hits.record(len(result.hits))
        self._answers.add(1, {"confidence": result.confidence})
        for stage in result.stages:
            self._steps.record(stage.milliseconds / 1000, {"stage": "retrieve", "step": stage.stage})
        for notice in result.notices:
            self._notices.add(1, {"step": notice.stage, "kind": notice.kind})

    def count_refused_query(self, reason: RefusalReason) -> None:
        """Count a query whose token did not allow it."""
        self._refused.add(1, {"reason": reason})

    def count_over_limit(self, kind: LimitKind) -> None:
        """Count a change or a query that a limit of its tenant refused."""
        self._over_limit.add(1, {"limit": kind})

    def count_audited(self, entries: int) -> None:
        """Count entries that the file of the audit log has."""
        self._audited.add(entries)

    def count_unaudited(self, entries: int) -> None:
        """Count entries that could not be written: what they say was refused."""
        self._unaudited.add(entries)

    def count_reload(self, *, refused: bool) -> None:
        """Count a change of the settings, and set whether those in the file are refused."""
        self._reloads.add(1, {"outcome": "refused" if refused else "taken_over"})
        self._refused_settings.set(int(refused))

    def count_unranked(self, candidates: int) -> None:
        """Count candidates that were not reranked because of the deadline."""
        self._skipped.add(candidates)

    def set_circuit_open(self, service: str, *, resting: bool) -> None:
        """Set whether the circuit breaker of a service is open."""
        self._open.set(int(resting), {"service": service})

    def count_skipped_call(self, service: str) -> None:
        """Count a call that was not made because the circuit breaker was open."""
        self._left_out.add(1, {"service": service})

    def record_batch(self, stage: str, *, records: int, max_records: int, seconds: float, failed: bool) -> None:
        """Record duration and size of a batch of a stage."""
        self._batches.record(seconds, {"stage": stage, "outcome": "failed" if failed else "done"})
        self._fill.record(records / max_records, {"stage": stage})
        if not failed:
            self._records.add(records, {"stage": stage})

    def count_retry(self, stage: str, error: BaseException) -> None:
        """Count a retry while a service is unavailable."""
        self._retries.add(1, {"stage": stage, "error.type": type(error).__qualname__})

    def count_lost(self, stage: str, records: int) -> None:
        """Count records, by offsets, that retention dropped before they were read."""
        self._lost.add(records, {"stage": stage})

    def count_dead_letter(self, stage: str, error: BaseException) -> None:
        """Count a dead letter."""
        self._letters.add(1, {"stage": stage, "error.type": type(error).__qualname__})

    def observe_stages(self, look: Callable[[], Mapping[str, StageBacklog]]) -> None:
        """Register gauges of lag and idle time; look: returns both by stage, called in any thread."""

        def records(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(each.records, _place(stage, each)) for stage, each in _partitions(look())]

        def ages(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(each.age_s, _place(stage, each)) for stage, each in _partitions(look())]

        def idle(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(each.idle_s, {"stage": stage}) for stage, each in look().items()]

        # With unit 1, the Prometheus exporter would name the gauge a ratio.
        self._meter.create_observable_gauge("freki.lag.records", [records], description="Records that wait")
        self._meter.create_observable_gauge("freki.lag.age", [ages], "s", "Age of the oldest record that waits")
        self._meter.create_observable_gauge(
            "freki.progress.age", [idle], "s", "Time since a stage last finished a batch while records wait"
        )

    def observe_build_info(self, describe: Callable[[], Mapping[str, str]]) -> None:
        """Register a gauge whose labels are versions and models of this process at the time of each observation."""
        self._meter.create_observable_gauge(
            "freki.build.info",
            [lambda _: [Observation(1, describe())]],
            description="Versions and models of the process",
        )

    def _seconds(self, name: str, description: str, bounds: Sequence[float] = _CALL_S) -> Histogram:
        return self._meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=bounds)


def _partitions(backlogs: Mapping[str, StageBacklog]) -> Iterator[tuple[str, PartitionBacklog]]:
    return ((stage, each) for stage, backlog in backlogs.items() for each in backlog.waiting)


def _place(stage: str, waiting: PartitionBacklog) -> dict[str, str]:
    return {"stage": stage, "topic": waiting.topic, "partition": str(waiting.partition)}
