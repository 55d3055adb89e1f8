import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import freki
from freki.cli.context import load_settings
from freki.infra.local.specs import WORKER_STOP_TIMEOUT_S
from freki.infra.settings import Settings
from freki.infra.telemetry.endpoint import HEALTH
from freki.streams.app import STAGES
from freki.streams.wire.health import Health
from tests.compose import image_environment, image_lines, read_compose

DOC = Path(freki.__file__).parents[1] / "docs" / "production.md"
UNIT = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)


def blocks(language: str) -> Sequence[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)


def test_the_settings_shown_for_production_are_settings() -> None:
    (shown,) = blocks("toml")

    settings = Settings(**tomllib.loads(shown))

    assert settings.kafka.security == "SASL_SSL"
    assert settings.milvus.partition_key
    assert settings.telemetry.http_port == int(image_environment()["FREKI_TELEMETRY__HTTP_PORT"])


def test_every_probe_of_a_worker_is_described() -> None:
    described = re.findall(rf"^\| `{HEALTH}(\w+)`", DOC.read_text(encoding="utf-8"), re.MULTILINE)

    # Settings that are refused are no reason to restart or to wait.
    assert set(described) == Health().checks.keys() - {"settings"}


def test_the_deployment_suits_the_image_and_the_worker() -> None:
    deployment, _ = map(yaml.safe_load, blocks("yaml"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (port,) = container["ports"]
    probes = {name: probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")}

    assert pod["terminationGracePeriodSeconds"] == WORKER_STOP_TIMEOUT_S
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in image_lines()
    assert container["args"][0] == "worker"
    assert set(container["args"][1:]) <= set(STAGES)
    assert container["image"].rpartition("/")[2] == read_compose({})["services"]["retrieve"]["image"]
    assert str(port["containerPort"]) == image_environment()["FREKI_TELEMETRY__HTTP_PORT"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert {probe["path"] for probe in probes.values()} == {f"{HEALTH}{name}" for name in ("startup", "ready", "live")}
    # Here alone the image writes: FREKI_LOCAL__STATE_DIR lies there.
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]  # noqa: S108 - of the image


def test_prometheus_is_shown_to_keep_the_pods_of_the_deployment_under_the_names_of_rules() -> None:
    deployment, prometheus = map(yaml.safe_load, blocks("yaml"))
    template = deployment["spec"]["template"]
    (job,) = prometheus["scrape_configs"]
    keep, name = job["relabel_configs"]

    assert job["job_name"] == "freki"
    assert (
        keep["regex"]
        == f"{template['metadata']['labels']['app']};{template['spec']['containers'][0]['ports'][0]['name']}"
    )
    assert name == {"source_labels": ["__meta_kubernetes_pod_label_worker"], "target_label": "worker"}
    assert template["metadata"]["labels"]["worker"] in STAGES


@pytest.mark.usefixtures("folder")
def test_the_unit_of_systemd_sets_settings_and_waits_for_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    (unit,) = blocks("ini")
    lines = UNIT.findall(unit)
    for assignment in (value for key, value in lines if key == "Environment"):
        monkeypatch.setenv(*assignment.split("=", 1))

    settings = load_settings()

    assert settings.models.cache_dir == Path("/var/cache/freki/models")
    assert settings.local.state_dir == Path("/var/lib/freki")
    assert float(dict(lines)["TimeoutStopSec"]) == WORKER_STOP_TIMEOUT_S
    assert set(re.findall(r"freki@(\w+)", unit.splitlines()[0])) - {"service"} <= set(STAGES)
