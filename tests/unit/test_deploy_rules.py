import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.metrics import OF_PROMETHEUS, SCRAPED, SERIES
from deploy.promql import groupings, selectors, series

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
GROUPS = yaml.safe_load((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
CASES = [
    case
    for test in yaml.safe_load((PROMETHEUS / "rules.test.yml").read_text(encoding="utf-8"))["tests"]
    for case in test.get("alert_rule_test", [])
]

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])


def test_rules_ask_for_what_workers_serve_and_rules_record() -> None:
    for rule in RULES:
        assert series(rule["expr"]) <= SERIES.keys() | RECORDED | OF_PROMETHEUS, rule["expr"]


def test_rules_use_labels_that_their_series_have() -> None:
    for rule in RULES:
        for name, labels in selectors(rule["expr"]):
            assert name in OF_PROMETHEUS or labels <= SERIES[name] | SCRAPED, rule["expr"]
        served = [SERIES[name] for name in series(rule["expr"]) if name in SERIES]
        assert groupings(rule["expr"]) <= SCRAPED.union(*served), rule["expr"]


def test_names_are_used_once() -> None:
    names = [rule.get("record", rule.get("alert")) for rule in RULES]

    assert len(names) == len(set(names))
    assert all(name.startswith("freki:") for name in RECORDED)


@each_alert
def test_an_alert_says_what_is_wrong_what_to_do_and_where_to_read_on(alert: dict[str, Any]) -> None:
    notes = alert["annotations"]
    document, _, anchor = notes["runbook_url"].partition("#")
    headings = re.findall(r"^### (\w+)$", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE)

    assert alert["labels"]["severity"] in {"page", "ticket"}
    assert notes["summary"]
    assert notes["description"].endswith(".")
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()


@each_alert
def test_an_alert_is_shown_to_fire_and_not_to_fire(alert: dict[str, Any]) -> None:
    fires = [bool(case["exp_alerts"]) for case in CASES if case["alertname"] == alert["alert"]]

    assert set(fires) == {True, False}
