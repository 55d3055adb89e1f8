import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.dashboards import DASHBOARDS, FOLDER, INGEST, Dashboard, rendered
from deploy.metrics import OF_PROMETHEUS, SCRAPED, SERIES
from deploy.promql import groupings, selectors, series
from freki.infra.models.vectors import VectorCache
from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.calls import Calls
from freki.infra.telemetry.metrics import metering
from freki.streams.wire.query_parts import ROW_SHARES

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
RECORDED = {
    rule["record"]
    for group in yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "record" in rule
}
COLUMNS = 24
UNITS = {"s", "percentunit", "ops", "short", "bytes"}

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)


def panels_of(dashboard: Dashboard) -> list[Mapping[str, Any]]:
    panels: list[Mapping[str, Any]] = json.loads(rendered(dashboard))["panels"]
    return panels


def expressions_of(dashboard: Dashboard) -> Iterator[str]:
    return (target["expr"] for panel in panels_of(dashboard) for target in panel["targets"])


def cells_of(panel: Mapping[str, Any]) -> set[tuple[int, int]]:
    place = panel["gridPos"]
    return {
        (x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
    }


def test_the_files_are_what_the_tables_say() -> None:
    # `python -m deploy.dashboards` rewrites them.
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}

    assert written == {f"{dashboard.uid}.json": rendered(dashboard) for dashboard in DASHBOARDS}


def test_dashboards_have_addresses_of_their_own() -> None:
    assert len({dashboard.uid for dashboard in DASHBOARDS}) == len(DASHBOARDS)


@each_dashboard
def test_every_panel_says_what_it_shows_and_in_which_unit(dashboard: Dashboard) -> None:
    panels = panels_of(dashboard)

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"].endswith(".") for panel in panels)
    assert all(panel["fieldConfig"]["defaults"]["unit"] in UNITS for panel in panels)
    assert all(panel["targets"] for panel in panels)
    assert all(target["legendFormat"] for panel in panels for target in panel["targets"])


@each_dashboard
def test_panels_lie_beside_each_other(dashboard: Dashboard) -> None:
    panels = panels_of(dashboard)

    cells = [cell for panel in panels for cell in cells_of(panel)]

    assert len(cells) == len(set(cells))
    assert all(x < COLUMNS for x, _ in cells)


@each_dashboard
def test_the_source_of_the_data_is_the_only_choice(dashboard: Dashboard) -> None:
    content = json.loads(rendered(dashboard))

    assert [choice["name"] for choice in content["templating"]["list"]] == ["datasource"]
    assert all("$" not in expression.replace("$__rate_interval", "") for expression in expressions_of(dashboard))
    assert {target["datasource"]["uid"] for panel in content["panels"] for target in panel["targets"]} == {
        "${datasource}"
    }


@each_dashboard
def test_queries_ask_for_what_workers_serve_and_rules_record(dashboard: Dashboard) -> None:
    for expression in expressions_of(dashboard):
        assert series(expression) <= SERIES.keys() | RECORDED | OF_PROMETHEUS, expression


@each_dashboard
def test_queries_use_labels_that_their_series_have(dashboard: Dashboard) -> None:
    for expression in expressions_of(dashboard):
        for name, labels in selectors(expression):
            assert name in OF_PROMETHEUS or labels <= SERIES[name] | SCRAPED, expression
        served = [SERIES[name] for name in series(expression) if name in SERIES]
        assert groupings(expression) <= SCRAPED.union(*served), expression


@each_dashboard
def test_legends_name_labels_that_the_query_keeps(dashboard: Dashboard) -> None:
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            whole = series(target["expr"]) & (RECORDED | OF_PROMETHEUS)
            assert whole or named <= groupings(target["expr"]), panel["title"]


@each_dashboard
def test_the_handbook_explains_every_panel(dashboard: Dashboard) -> None:
    section = re.search(rf"^### {dashboard.title}\n(.*?)(?=^#)", DOC, re.DOTALL | re.MULTILINE)
    assert section

    explained = re.findall(r"^\| ([^|]+?) \|", section[1], re.MULTILINE)

    assert [title for title in explained if title not in {"panel", "---"}] == [
        panel.title for panel in dashboard.panels
    ]


def test_panels_of_vectors_show_no_other_cache() -> None:
    # All stages may run in one process, which has one series for each name.
    with metering(TelemetrySettings(http_port=0), "test") as (meter, registry):
        cache = VectorCache("model", 1_000, Calls(meter))
        cache.keep({})
        samples = [sample for metric in registry.collect() for sample in metric.samples]
    named = {sample.labels["cache"] for sample in samples if "cache" in sample.labels}
    shown = {name for expression in expressions_of(INGEST) for name in re.findall(r'cache="(\w+)"', expression)}

    assert shown == named
    assert named.isdisjoint(ROW_SHARES)
