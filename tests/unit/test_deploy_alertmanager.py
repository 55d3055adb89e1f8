"""Alertmanager in Compose: who is told what."""

import re
from typing import Any

import yaml

from tests.compose import ROOT, read_compose

CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "deploy/alertmanager/alertmanager.yml").read_text(encoding="utf-8"))
PROMETHEUS = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
RULES = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text(encoding="utf-8"))
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}
SERVICE = read_compose({})["services"]["alertmanager"]
MATCHER = re.compile(r'(\w+) = "(\w+)"')


def receiver_of(severity: str) -> str:
    """Route as Alertmanager does: the first child that matches, else the root."""
    for route in CONFIG["route"]["routes"]:
        if all(MATCHER.fullmatch(each).groups() == ("severity", severity) for each in route["matchers"]):  # type: ignore[union-attr]
            return str(route["receiver"])
    return str(CONFIG["route"]["receiver"])


def test_every_alert_reaches_the_receiver_of_its_severity() -> None:
    receivers = {each["name"] for each in CONFIG["receivers"]}

    for alert in ALERTS.values():
        severity = alert["labels"]["severity"]
        assert receiver_of(severity) == severity
        assert severity in receivers


def test_an_alert_is_muted_only_by_another_one_that_there_is() -> None:
    for rule in CONFIG["inhibit_rules"]:
        (source,), (target,) = rule["source_matchers"], rule["target_matchers"]
        names = [MATCHER.fullmatch(each).groups() for each in (source, target)]  # type: ignore[union-attr]
        assert [label for label, _ in names] == ["alertname", "alertname"]
        assert {name for _, name in names} <= ALERTS.keys()
        assert len({name for _, name in names}) == 2


def test_alerts_are_grouped_by_labels_that_they_have() -> None:
    assert "alertname" in CONFIG["route"]["group_by"]


def test_prometheus_sends_to_the_service_of_compose() -> None:
    (manager,) = PROMETHEUS["alerting"]["alertmanagers"]
    (target,) = manager["static_configs"][0]["targets"]
    host, _, port = target.partition(":")

    assert host == "alertmanager"
    assert SERVICE["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"http://localhost:{port}/-/ready" in SERVICE["healthcheck"]["test"]


def test_the_service_reads_this_configuration() -> None:
    assert "--config.file=/etc/alertmanager/alertmanager.yml" in SERVICE["command"]
    assert "./deploy/alertmanager:/etc/alertmanager:ro" in SERVICE["volumes"]
