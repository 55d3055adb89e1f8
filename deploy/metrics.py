"""Series that workers serve at `/metrics`, with their labels: all that dashboards and rules may query."""

from collections.abc import Iterator, Mapping

APPEAR_WITH_TROUBLE = frozenset(
    {
        "freki_dead_letters_total",
        "freki_retries_total",
        "freki_breaker_left_out_total",
        "freki_records_lost_total",
        "freki_audit_entries_total",
        "freki_audit_unwritten_total",
        "freki_settings_reloads_total",
        "freki_settings_refused",
    }
)
"""Counters without a series in normal operation, or as the default settings are: one appears with its first event."""

OF_PROMETHEUS = frozenset({"up", "ALERTS"})
"""Series added by Prometheus."""

SCRAPED = frozenset({"job", "instance", "worker"})
"""Labels added by scraping."""


def _histogram(name: str, *labels: str) -> Iterator[tuple[str, frozenset[str]]]:
    yield f"{name}_bucket", frozenset({*labels, "le"})
    yield f"{name}_sum", frozenset(labels)
    yield f"{name}_count", frozenset(labels)


SERIES: Mapping[str, frozenset[str]] = {
    **dict(_histogram("freki_freshness_seconds", "section", "status")),
    **dict(_histogram("freki_source_delay_seconds")),
    "freki_outcomes_total": frozenset({"status"}),
    "freki_chunks_embedded_total": frozenset(),
    "freki_chunks_indexed_total": frozenset(),
    "freki_contexts_total": frozenset({"outcome"}),
    "freki_llm_tokens_total": frozenset({"gen_ai_token_type"}),
    "freki_dead_letters_total": frozenset({"stage", "error_type"}),
    "freki_retries_total": frozenset({"stage", "error_type"}),
    **dict(_histogram("freki_batch_duration_seconds", "stage", "outcome")),
    **dict(_histogram("freki_batch_fill", "stage")),
    "freki_records_total": frozenset({"stage"}),
    "freki_audit_entries_total": frozenset(),
    "freki_audit_unwritten_total": frozenset(),
    "freki_records_lost_total": frozenset({"stage"}),
    "freki_lag_records": frozenset({"stage", "topic", "partition"}),
    "freki_lag_age_seconds": frozenset({"stage", "topic", "partition"}),
    "freki_progress_age_seconds": frozenset({"stage"}),
    **dict(_histogram("freki_step_duration_seconds", "stage", "step")),
    **dict(_histogram("freki_query_duration_seconds", "status")),
    "freki_answers_total": frozenset({"confidence"}),
    "freki_queries_refused_total": frozenset({"reason"}),
    "freki_over_limit_total": frozenset({"limit"}),
    "freki_settings_reloads_total": frozenset({"outcome"}),
    "freki_settings_refused": frozenset(),
    "freki_notices_total": frozenset({"step", "kind"}),
    "freki_candidates_skipped_total": frozenset(),
    "freki_breaker_open": frozenset({"service"}),
    "freki_breaker_left_out_total": frozenset({"service"}),
    **dict(_histogram("freki_hits")),
    "freki_cache_evictions_total": frozenset({"cache"}),
    "freki_cache_held_bytes": frozenset({"cache"}),
    "freki_cache_lookups_total": frozenset({"cache", "outcome"}),
    **dict(
        _histogram("gen_ai_client_operation_duration_seconds", "gen_ai_operation_name", "gen_ai_request_model"),
    ),
    "freki_model_cost_total": frozenset({"gen_ai_request_model"}),
    "freki_model_tokens_total": frozenset({"gen_ai_operation_name", "gen_ai_request_model"}),
    **dict(
        _histogram(
            "db_client_operation_duration_seconds",
            "db_system_name",
            "db_operation_name",
            "db_collection_name",
            "error_type",
        ),
    ),
    "freki_build_info": frozenset({"version", "generation", "embedder", "reranker"}),
    "process_cpu_seconds_total": frozenset(),
    "process_resident_memory_bytes": frozenset(),
    "process_start_time_seconds": frozenset(),
}
