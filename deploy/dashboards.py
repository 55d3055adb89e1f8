"""Write the Grafana dashboards: `python -m deploy.dashboards`. Each panel is an entry in the tables below."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent / "grafana" / "dashboards"
SCHEMA_VERSION = 39
"""Schema version of dashboards; Grafana 10 and newer migrate it on load."""

_COLUMNS = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WITHOUT_TIME = {"id": "organize", "options": {"excludeByName": {"Time": True}}}
_QUANTILES = (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """PromQL expression with the legend of its series."""

    expression: str
    legend: str
    """Legend, with labels in double braces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Panel with its queries."""

    title: str
    description: str
    unit: str
    """Unit by Grafana's name: `s`, `percentunit` (1 is 100 %), `ops` (per second), `short`, `bytes`."""
    queries: Sequence[Query]
    kind: Literal["timeseries", "stat", "table"] = "timeseries"
    width: int = 8
    """Width in columns, of 24."""
    height: int = 8
    stacked: bool = False
    steps: Sequence[float] = ()
    """Thresholds: end of green and, if given, end of orange."""
    high_is_good: bool = False
    nothing: str | None = None
    """Meaning of an empty result; None: an empty result is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """Dashboard page."""

    uid: str
    title: str
    description: str
    panels: Sequence[Panel]


def _one(expression: str, legend: str) -> tuple[Query]:
    return (Query(expression=expression, legend=legend),)


def _quantiles(histogram: str, matchers: str = "") -> tuple[Query, ...]:
    rate = f"sum by (le) (rate({histogram}_bucket{matchers}[$__rate_interval]))"
    return tuple(
        Query(expression=f"histogram_quantile({quantile}, {rate})", legend=name) for quantile, name in _QUANTILES
    )


def _p95_by(histogram: str, *labels: str) -> tuple[Query]:
    by = ", ".join(labels)
    expression = f"histogram_quantile(0.95, sum by (le, {by}) (rate({histogram}_bucket[$__rate_interval])))"
    return _one(expression, " ".join(f"{{{{{label}}}}}" for label in labels))


def _mean_by(histogram: str, label: str, matchers: str = "") -> tuple[Query]:
    total, count = (
        f"sum by ({label}) (rate({histogram}_{part}{matchers}[$__rate_interval]))" for part in ("sum", "count")
    )
    return _one(f"{total} / {count}", f"{{{{{label}}}}}")


def _rate_by(counter: str, *labels: str) -> tuple[Query]:
    expression = f"sum by ({', '.join(labels)}) (rate({counter}[$__rate_interval]))"
    return _one(expression, " ".join(f"{{{{{label}}}}}" for label in labels))


def _remembered(cache: str) -> tuple[Query]:
    found = f'sum(rate(freki_cache_lookups_total{{cache="{cache}",outcome="hit"}}[$__rate_interval]))'
    return _one(f'{found} / (sum(rate(freki_cache_lookups_total{{cache="{cache}"}}[$__rate_interval])) > 0)', "found")


_ALERTS = Panel(
    title="Alerts that fire",
    description="Every alert is explained in docs/operations.md.",
    unit="short",
    kind="table",
    queries=_one('ALERTS{alertstate="firing"}', "{{alertname}}"),
    width=12,
    height=6,
    nothing="none",
)

FRESHNESS = Dashboard(
    uid="freki-freshness",
    title="Freshness",
    description="How long a change takes from the broker to the first answer that can hold it. Goal: 99 % within 10 s.",
    panels=(
        Panel(
            title="Searchable within 10 s",
            description="Share of the changes of the last hour. The goal is 99 %.",
            unit="percentunit",
            kind="stat",
            queries=_one("1 - freki:freshness_late:ratio1h", "within 10 s"),
            width=6,
            height=6,
            steps=(0.95, 0.99),
            high_is_good=True,
            nothing="no changes",
        ),
        Panel(
            title="Error budget left",
            description="Of the 1 % of changes that may be late within 30 days. Below 0 the goal is missed.",
            unit="percentunit",
            kind="stat",
            queries=_one(
                "1 - (1 - sum(increase("
                'freki_freshness_seconds_bucket{section="total", le=~"10(\\\\.0)?"}[30d]))'
                ' / (sum(increase(freki_freshness_seconds_count{section="total"}[30d])) > 0)) / 0.01',
                "left",
            ),
            width=6,
            height=6,
            steps=(0, 0.5),
            high_is_good=True,
            nothing="no changes",
        ),
        _ALERTS,
        Panel(
            title="Broker to searchable",
            description="The whole way, from when the broker had the change.",
            unit="s",
            queries=_quantiles("freki_freshness_seconds", '{section="total"}'),
            width=12,
            steps=(10,),
        ),
        Panel(
            title="Where the time goes",
            description="Mean of each part: until a worker received it, then until embedded, then until searchable.",
            unit="s",
            queries=_mean_by("freki_freshness_seconds", "section", '{section!="total"}'),
            width=12,
            stacked=True,
        ),
        Panel(
            title="Burn rate",
            description="How many times faster than allowed late changes use up their budget. At 1 it lasts 30 days; "
            "an alert starts at 14.4 for an hour, 6 for six hours, 3 for a day.",
            unit="short",
            queries=tuple(
                Query(expression=f"freki:freshness_late:ratio{window} / 0.01", legend=window)
                for window in ("5m", "1h", "6h", "1d")
            ),
            width=12,
            steps=(1, 14.4),
            nothing="no changes",
        ),
        Panel(
            title="Changes that became searchable",
            description="Per second, by what became of them.",
            unit="ops",
            queries=_one(
                'sum by (status) (rate(freki_freshness_seconds_count{section="total"}[$__rate_interval]))', "{{status}}"
            ),
            width=12,
            stacked=True,
        ),
        Panel(
            title="Waiting",
            description="Age of the oldest record that waits, by stage: not counted above because it is not done.",
            unit="s",
            queries=_one("freki:lag_age:seconds", "{{stage}}"),
            width=12,
            steps=(60,),
        ),
        Panel(
            title="Before the broker",
            description="From the event at its source until the broker had it: the producer's time, not counted above.",
            unit="s",
            queries=_quantiles("freki_source_delay_seconds"),
            width=12,
        ),
    ),
)

INGEST = Dashboard(
    uid="freki-ingest",
    title="Ingest",
    description="From documents to rows: what arrives, what waits, what each stage and the store take for it.",
    panels=(
        Panel(
            title="Receipts",
            description="Receipts per second. STALE: older than what is indexed. REJECTED: see Dead letters.",
            unit="ops",
            queries=_rate_by("freki_outcomes_total", "status"),
            stacked=True,
        ),
        Panel(
            title="Records handled",
            description="Per second, by stage. In a steady flow the stages follow one another.",
            unit="ops",
            queries=_rate_by("freki_records_total", "stage"),
        ),
        Panel(
            title="Workers up",
            description="Processes whose models and connections are open, by worker.",
            unit="short",
            queries=_one(
                'count by (worker) (freki_build_info) or 0 * group by (worker) (up{job="freki"})', "{{worker}}"
            ),
        ),
        Panel(
            title="Records that wait",
            description="Lag by stage. It grows during a bulk load and must shrink afterwards.",
            unit="short",
            queries=_one("freki:lag:records", "{{stage}}"),
        ),
        Panel(
            title="Age of the oldest",
            description="How long the oldest record has waited, by stage. An alert starts at 60 s.",
            unit="s",
            queries=_one("freki:lag_age:seconds", "{{stage}}"),
            steps=(60,),
        ),
        Panel(
            title="Partitions furthest behind",
            description="The ten with most records. One alone: a hot key, or a record that is tried again and again.",
            unit="short",
            kind="table",
            queries=_one(
                "topk(10, max by (stage, topic, partition) (freki_lag_records))", "{{stage}} {{topic}} {{partition}}"
            ),
        ),
        Panel(
            title="Batch duration, p95",
            description="From the first record of a batch to its acknowledgement, by stage.",
            unit="s",
            queries=_p95_by("freki_batch_duration_seconds", "stage"),
        ),
        Panel(
            title="Batch fill",
            description="How full batches are on average. Near 1: the stage works at its limit.",
            unit="percentunit",
            queries=_mean_by("freki_batch_fill", "stage"),
        ),
        Panel(
            title="Since a stage last ended a batch",
            description="While records wait; else 0. An alert starts at 120 s.",
            unit="s",
            queries=_one("max by (stage) (freki_progress_age_seconds)", "{{stage}}"),
            steps=(120,),
        ),
        Panel(
            title="Chunks",
            description="Per second. The distance between both is what edits did not have to embed again.",
            unit="ops",
            queries=(
                Query(expression="sum(rate(freki_chunks_indexed_total[$__rate_interval]))", legend="indexed"),
                Query(expression="sum(rate(freki_chunks_embedded_total[$__rate_interval]))", legend="embedded"),
            ),
        ),
        Panel(
            title="Tokens through the models",
            description="Per second, by what for.",
            unit="ops",
            queries=_rate_by("freki_model_tokens_total", "gen_ai_operation_name"),
        ),
        Panel(
            title="Vectors remembered",
            description="Share of chunks without a row whose vector was remembered.",
            unit="percentunit",
            queries=_remembered("passages"),
            nothing="no lookups",
        ),
        Panel(
            title="Memory of vectors",
            description="By worker.",
            unit="bytes",
            queries=_one('sum by (worker) (freki_cache_held_bytes{cache="passages"})', "{{worker}}"),
            nothing="none",
        ),
        Panel(
            title="Model calls, p95",
            description="Duration of one call, by what for.",
            unit="s",
            queries=_p95_by("gen_ai_client_operation_duration_seconds", "gen_ai_operation_name"),
        ),
        Panel(
            title="Store calls",
            description="Per second, by operation.",
            unit="ops",
            queries=_rate_by("db_client_operation_duration_seconds_count", "db_operation_name"),
        ),
        Panel(
            title="Store calls, p95",
            description="Duration of one call, by operation.",
            unit="s",
            queries=_p95_by("db_client_operation_duration_seconds", "db_operation_name"),
        ),
        Panel(
            title="Store calls that fail",
            description="Share of the calls of 2 minutes. An alert starts at 5 %.",
            unit="percentunit",
            queries=_one("freki:store_errors:ratio2m", "failed"),
            steps=(0.05,),
        ),
        Panel(
            title="Memory",
            description="Resident memory by worker; the limits stand in docker-compose.yml.",
            unit="bytes",
            queries=_one('max by (worker) (process_resident_memory_bytes{job="freki"})', "{{worker}}"),
        ),
        Panel(
            title="Processor",
            description="Cores in use by worker.",
            unit="short",
            queries=_one(
                'sum by (worker) (rate(process_cpu_seconds_total{job="freki"}[$__rate_interval]))', "{{worker}}"
            ),
        ),
        Panel(
            title="Since the start",
            description="A saw-tooth is a worker that ends and starts again: its log says why.",
            unit="s",
            queries=_one('time() - max by (worker) (process_start_time_seconds{job="freki"})', "{{worker}}"),
        ),
    ),
)

QUERY = Dashboard(
    uid="freki-query",
    title="Query",
    description="From a query to its context: how many, how fast, how complete.",
    panels=(
        Panel(
            title="Answers",
            description="Per second, by status. DEGRADED: a step failed or was skipped and is named in the answer.",
            unit="ops",
            queries=_rate_by("freki_query_duration_seconds_count", "status"),
            stacked=True,
        ),
        Panel(
            title="Asked to answered",
            description="From when the query was asked. An alert starts at a p95 of 2 s.",
            unit="s",
            queries=_quantiles("freki_query_duration_seconds"),
            steps=(2,),
        ),
        Panel(
            title="Steps, p95",
            description="Duration of each step. Searches run side by side; the others follow one another.",
            unit="s",
            queries=_one(
                "histogram_quantile(0.95, sum by (le, step) "
                '(rate(freki_step_duration_seconds_bucket{stage="retrieve"}[$__rate_interval])))',
                "{{step}}",
            ),
        ),
        Panel(
            title="Nothing found",
            description="Share of the answers of 30 minutes. An alert starts at 2 %.",
            unit="percentunit",
            kind="stat",
            queries=_one("freki:answers_empty:ratio30m", "empty"),
            width=4,
            height=6,
            steps=(0.01, 0.02),
            nothing="no queries",
        ),
        Panel(
            title="Nothing that answers",
            description="Share of the judged answers of 30 minutes whose hits answer nothing. An alert starts at 20 %.",
            unit="percentunit",
            kind="stat",
            queries=_one("freki:answers_useless:ratio30m", "useless"),
            width=4,
            height=6,
            steps=(0.1, 0.2),
            nothing="no queries",
        ),
        Panel(
            title="Degraded",
            description="Share of the answers of 5 minutes. An alert starts at 5 %.",
            unit="percentunit",
            kind="stat",
            queries=_one("freki:answers_degraded:ratio5m", "degraded"),
            width=4,
            height=6,
            steps=(0.01, 0.05),
            nothing="no queries",
        ),
        Panel(
            title="Hits of an answer",
            description="On average.",
            unit="short",
            kind="stat",
            queries=_one(
                "sum(rate(freki_hits_sum[$__rate_interval])) / (sum(rate(freki_hits_count[$__rate_interval])) > 0)",
                "hits",
            ),
            width=4,
            height=6,
            nothing="no queries",
        ),
        Panel(
            title="What answers",
            description="Version, generation of the index, and models of each worker that retrieves.",
            unit="short",
            kind="table",
            queries=_one("max by (version, generation, embedder, reranker) (freki_build_info)", "{{version}}"),
            width=8,
            height=6,
        ),
        Panel(
            title="Notices",
            description="What answers say about their steps, per second: DEGRADED failed, SKIPPED for the deadline, "
            "DROPPED rows that no longer count, FRESHNESS a version not there in time.",
            unit="ops",
            queries=_rate_by("freki_notices_total", "step", "kind"),
            width=12,
            nothing="none",
        ),
        Panel(
            title="Open circuit breakers",
            description="Steps, and services that they call, that failed three times in a row: 1 until they are back. "
            "The worker's log has the errors.",
            unit="short",
            queries=_one("max by (worker, service) (freki_breaker_open) > 0", "{{worker}} {{service}}"),
            width=6,
            nothing="none",
        ),
        Panel(
            title="Calls skipped",
            description="Per second, while the circuit breaker is open.",
            unit="ops",
            queries=_rate_by("freki_breaker_left_out_total", "service"),
            width=6,
            nothing="none",
        ),
        Panel(
            title="Settings refused",
            description="1 while the settings in the file of a worker are refused: those before stay in force.",
            unit="short",
            queries=_one("max by (worker) (freki_settings_refused) > 0", "{{worker}}"),
            width=6,
            nothing="none",
        ),
        Panel(
            title="Candidates not reranked for the deadline",
            description="Per second. They keep the order of late interaction.",
            unit="ops",
            queries=_one("sum(rate(freki_candidates_skipped_total[$__rate_interval]))", "skipped"),
            width=6,
            nothing="none",
        ),
        Panel(
            title="Queries that wait",
            description="Lag of the stage retrieve.",
            unit="short",
            queries=_one('sum(max by (topic, partition) (freki_lag_records{stage="retrieve"}))', "waiting"),
        ),
        Panel(
            title="Model calls, p95",
            description="Embedding the query and reranking its candidates.",
            unit="s",
            queries=_p95_by(
                "gen_ai_client_operation_duration_seconds", "gen_ai_operation_name", "gen_ai_request_model"
            ),
        ),
        Panel(
            title="Store calls, p95",
            description="Duration of one call, by operation and collection.",
            unit="s",
            queries=_p95_by("db_client_operation_duration_seconds", "db_operation_name", "db_collection_name"),
        ),
        Panel(
            title="Refused queries",
            description="Per second, by what was wrong with their token: docs/security.md.",
            unit="ops",
            queries=_rate_by("freki_queries_refused_total", "reason"),
            nothing="none",
        ),
        Panel(
            title="Refused by limits",
            description="Changes and queries per second beyond a limit of their tenant: freki limits shows whose.",
            unit="ops",
            queries=_rate_by("freki_over_limit_total", "limit"),
            nothing="none",
        ),
    ),
)

DEAD_LETTERS = Dashboard(
    uid="freki-dead-letters",
    title="Dead letters",
    description="Records that can never be processed, and work retried because a service is unavailable.",
    panels=(
        Panel(
            title="Within 10 minutes",
            description="Each one alerts. `freki dead-letters list` shows them.",
            unit="short",
            kind="stat",
            queries=_one(
                "sum(increase(freki_dead_letters_total[10m]) > 0"
                " or (freki_dead_letters_total unless freki_dead_letters_total offset 10m)"
                " or (freki_dead_letters_total"
                " and on (job, instance, worker) (time() - process_start_time_seconds < 600)))",
                "letters",
            ),
            width=6,
            height=6,
            steps=(1,),
            nothing="0",
        ),
        Panel(
            title="Since the workers started",
            description="By stage and reason.",
            unit="short",
            kind="table",
            queries=_one("sum by (stage, error_type) (freki_dead_letters_total)", "{{stage}} {{error_type}}"),
            width=12,
            height=6,
            nothing="none",
        ),
        Panel(
            title="Share of records",
            description="Dead letters of an hour among the records handled.",
            unit="percentunit",
            kind="stat",
            queries=_one(
                "(sum(rate(freki_dead_letters_total[1h])) or vector(0)) / (sum(rate(freki_records_total[1h])) > 0)",
                "share",
            ),
            width=6,
            height=6,
            steps=(0.001, 0.01),
            nothing="no records",
        ),
        Panel(
            title="Dead letters",
            description="Per second, by stage and reason.",
            unit="ops",
            queries=_rate_by("freki_dead_letters_total", "stage", "error_type"),
            width=12,
            stacked=True,
            nothing="none",
        ),
        Panel(
            title="Rejected changes",
            description="Receipts with status REJECTED per second: their producers get receipts.",
            unit="ops",
            queries=_one(
                'sum(rate(freki_outcomes_total{status="REJECTED"}[$__rate_interval])) or vector(0)', "rejected"
            ),
            width=12,
        ),
        Panel(
            title="Retries",
            description="Waits because broker, store, registry or claims do not answer, per second.",
            unit="ops",
            queries=_rate_by("freki_retries_total", "stage", "error_type"),
            width=12,
            stacked=True,
            nothing="none",
        ),
        Panel(
            title="Batches that failed",
            description="Per second, by stage. Their records are read again.",
            unit="ops",
            queries=_one(
                'sum by (stage) (rate(freki_batch_duration_seconds_count{outcome="failed"}[$__rate_interval]))',
                "{{stage}}",
            ),
            width=12,
            nothing="none",
        ),
        Panel(
            title="Lost to retention",
            description="Records that were gone before a stage read them, since the workers started. Each one alerts.",
            unit="short",
            kind="table",
            queries=_one("sum by (stage) (freki_records_lost_total)", "{{stage}}"),
            width=12,
            steps=(1,),
            nothing="none",
        ),
    ),
)

DASHBOARDS = (INGEST, QUERY, FRESHNESS, DEAD_LETTERS)


def rendered(dashboard: Dashboard) -> str:
    """Return a dashboard as Grafana reads it from a file."""
    panels = [
        _panel(number, panel, place)
        for number, (panel, place) in enumerate(zip(dashboard.panels, _places(dashboard.panels), strict=True), start=1)
    ]
    content = {
        "uid": dashboard.uid,
        "title": f"Freki: {dashboard.title}",
        "description": dashboard.description,
        "tags": ["freki"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["freki"], "title": "Freki", "asDropdown": True, "keepTime": True}],
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}]
        },
        "panels": panels,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _places(panels: Sequence[Panel]) -> Iterator[tuple[int, int]]:
    """Fill rows from left to right; a row is as high as its highest panel."""
    x = y = row = 0
    for panel in panels:
        if x + panel.width > _COLUMNS:
            x, y, row = 0, y + row, 0
        yield x, y
        x, row = x + panel.width, max(row, panel.height)


def _panel(number: int, panel: Panel, place: tuple[int, int]) -> dict[str, Any]:
    x, y = place
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": [_target(letter, panel, query) for letter, query in zip("ABCDEF", panel.queries, strict=False)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "transformations": [_WITHOUT_TIME] if panel.kind == "table" else [],
    }


def _target(letter: str, panel: Panel, query: Query) -> dict[str, Any]:
    target = {"refId": letter, "datasource": _DATASOURCE, "expr": query.expression, "legendFormat": query.legend}
    if panel.kind == "timeseries":
        return target
    return {**target, "instant": True, "format": "table" if panel.kind == "table" else "time_series"}


def _defaults(panel: Panel) -> dict[str, Any]:
    colours = ("red", "orange", "green") if panel.high_is_good else ("green", "orange", "red")
    if len(panel.steps) == 1:
        colours = (colours[0], colours[-1], colours[-1])
    steps: list[dict[str, str | float | None]] = [{"color": colours[0], "value": None}]
    steps += [{"color": colour, "value": step} for colour, step in zip(colours[1:], panel.steps, strict=False)]
    defaults: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.nothing is not None:
        defaults["noValue"] = panel.nothing
    if panel.kind == "timeseries":
        defaults["min"] = 0
        defaults["custom"] = {
            "fillOpacity": 25 if panel.stacked else 8,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "dashed" if panel.steps else "off"},
        }
    return defaults


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "timeseries":
        return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    if panel.kind == "stat":
        return {"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return {"showHeader": True}


def main() -> None:
    """Write all dashboards."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(rendered(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
