"""Run all queries of dashboards and alerts on a Prometheus: `python -m deploy.check http://127.0.0.1:9090`.

Prints Markdown: the values of each panel, and whether each alert would fire. Fails if a query has no data although its
panel does not expect that, or if an alert watches a missing series.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from deploy.metrics import APPEAR_WITH_TROUBLE, OF_PROMETHEUS
from deploy.promql import series

HERE = Path(__file__).parent
RULES = HERE / "prometheus" / "rules.yml"
DASHBOARDS = HERE / "grafana" / "dashboards"

_TIMEOUT_S = 30.0
_SHOWN = 6
"""Maximum number of series printed per query; the rest is counted."""
_DURATION = re.compile(r"([0-9]+(ms|[smhdwy]))+")
_LARGE = 1000
"""Value from which numbers are printed without decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Series of a query result."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Line of the report."""

    cells: tuple[str, ...]
    failed: bool


class Prometheus:
    """Client for instant queries. Raises httpx.HTTPError if unreachable, ValueError for a rejected query."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def ask(self, expression: str) -> list[Sample]:
        """Evaluate an expression now; omit series whose value is not a number."""
        answer = self._client.post("/api/v1/query", data={"query": expression})
        if answer.status_code == httpx.codes.BAD_REQUEST:
            raise ValueError(f"{answer.json()['error']}: {expression}")
        try:
            result = answer.raise_for_status().json()["data"]["result"]
        except (ValueError, TypeError, LookupError) as error:
            raise httpx.DecodingError(f"it answered {answer.text[:80]!r}") from error
        samples = [Sample(labels=each["metric"], value=float(each["value"][1])) for each in result]
        return [sample for sample in samples if not math.isnan(sample.value)]


def panels(prometheus: Prometheus, dashboards: Sequence[Mapping[str, Any]], window: str) -> Iterator[Row]:
    """Yield the result of each query of each panel. `window` replaces Grafana's `$__rate_interval`."""
    for dashboard in dashboards:
        for panel in dashboard["panels"]:
            defaults = panel["fieldConfig"]["defaults"]
            for target in panel["targets"]:
                samples = prometheus.ask(target["expr"].replace("$__rate_interval", window))
                shown = _shown(samples, defaults["unit"]) if samples else defaults.get("noValue", "**no data**")
                where = panel["title"] if len(panel["targets"]) == 1 else f"{panel['title']}, {target['legendFormat']}"
                yield Row(cells=(dashboard["title"], where, shown), failed=not samples and "noValue" not in defaults)


def alerts(prometheus: Prometheus, rules: Mapping[str, Any]) -> Iterator[Row]:
    """Yield for each alert whether it would fire now, and whether its series exist."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                watched = series(rule["expr"]) - APPEAR_WITH_TROUBLE - OF_PROMETHEUS
                missing = sorted(name for name in watched if not prometheus.ask(f"count({name})"))
                state = _shown(prometheus.ask(rule["expr"]), "short") or "quiet"
                shown = f"**no data**: {', '.join(missing)}" if missing else state
                yield Row(cells=(rule["alert"], rule["labels"]["severity"], shown), failed=bool(missing))


def table(head: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [tuple(head), ("---",) * len(head), *(row.cells for row in rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _shown(samples: Sequence[Sample], unit: str) -> str:
    ordered = sorted(samples, key=lambda sample: (-sample.value, sorted(sample.labels.items())))
    parts = [f"{_name(sample.labels)}{_value(sample.value, unit)}" for sample in ordered[:_SHOWN]]
    more = [f"and {len(ordered) - _SHOWN} more"] if len(ordered) > _SHOWN else []
    return "; ".join(parts + more)


def _name(labels: Mapping[str, str]) -> str:
    named = " ".join(value for label, value in sorted(labels.items()) if label not in {"__name__", "alertstate"})
    return f"{named}: " if named else ""


def _value(value: float, unit: str) -> str:
    match unit:
        case "percentunit":
            return f"{_number(100 * value)} %"
        case "bytes":
            return f"{_number(value / 2**20)} MiB"
        case "ops":
            return f"{_number(value)}/s"
        case "s":
            return f"{_number(value)} s"
        case _:
            return _number(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.3g}"


def _duration(text: str) -> str:
    if not _DURATION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration of Prometheus, such as 5m")
    return text


def main() -> int:
    """Print the report; return 1 if data is missing."""
    parser = argparse.ArgumentParser(prog="python -m deploy.check", description=__doc__)
    parser.add_argument("url", help="base URL of Prometheus")
    parser.add_argument(
        "--window",
        type=_duration,
        default="5m",
        help="window of rates; Grafana uses at least four scrapes (default: 5m)",
    )
    arguments = parser.parse_args()
    dashboards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))]
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    try:
        with httpx.Client(base_url=arguments.url, timeout=_TIMEOUT_S) as client:
            prometheus = Prometheus(client)
            shown = list(panels(prometheus, dashboards, arguments.window))
            watched = list(alerts(prometheus, rules))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        sys.exit(f"{arguments.url} does not answer as Prometheus: {error}; give its base URL, as http://127.0.0.1:9090")
    failed = sum(row.failed for row in (*shown, *watched))
    report = (
        table(("dashboard", "panel", "shows"), shown),
        table(("alert", "severity", "now"), watched),
        f"{len(shown)} queries, {len(watched)} alerts, {failed} without data",
    )
    sys.stdout.write("\n\n".join(report) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
