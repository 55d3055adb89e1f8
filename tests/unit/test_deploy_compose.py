import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from freki.infra.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMAGE = f"freki:{PROJECT['version']}"
WORKERS = {name for name, service in SERVICES.items() if service.get("command", [""])[0] == "worker"}
UNCHECKED = {"otel-collector"}
"""The image holds no program that could ask the collector how it is; Prometheus asks."""

each_service = pytest.mark.parametrize("name", SERVICES)


def test_the_profile_of_none_is_broker_and_store() -> None:
    plain = {name for name, service in SERVICES.items() if "profiles" not in service}

    assert plain == {"kafka", "etcd", "minio", "milvus"}


def test_there_is_a_worker_for_every_stage() -> None:
    stages = [stage for name in WORKERS for stage in SERVICES[name]["command"][1:]]

    assert sorted(stages) == ["chunk", "contextualise", "embed", "retrieve"]


@each_service
def test_an_image_is_pinned_by_version(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].rpartition(":")

    assert f"{image}:{tag}" == IMAGE or re.search(r"\d+\.\d+\.\d+|RELEASE\.\d{4}", tag)


@each_service
def test_a_port_is_open_to_this_machine_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@each_service
def test_a_service_is_limited_and_checked(name: str) -> None:
    service = SERVICES[name]
    own = service["image"] == IMAGE  # the image brings its check

    assert service["mem_limit"]
    assert service["logging"]["options"]["max-size"]
    assert own or name in UNCHECKED or service["healthcheck"]["test"]


@each_service
def test_a_service_waits_for_others_that_start_with_it(name: str) -> None:
    profiles = set(SERVICES[name].get("profiles", []))

    for other, wait in SERVICES[name].get("depends_on", {}).items():
        required = SERVICES[other].get("profiles")
        assert required is None or profiles <= set(required)
        assert wait["condition"] in {"service_healthy", "service_completed_successfully"}
        assert other not in UNCHECKED


@each_service
def test_what_is_mounted_is_there(name: str) -> None:
    sources = [volume.split(":")[0] for volume in SERVICES[name].get("volumes", [])]

    for source in sources:
        assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", sorted(name for name in SERVICES if SERVICES[name]["image"] == IMAGE))
def test_the_settings_handed_to_freki_are_settings(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = SERVICES[name]["environment"] | image_environment()
    for variable, value in given.items():
        monkeypatch.setenv(variable, re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(value)))
    monkeypatch.chdir(tmp_path)

    settings = Settings()

    assert settings.kafka.bootstrap == "kafka:19092"
    assert settings.telemetry.http_port == 9464


def test_prometheus_asks_every_worker_where_the_image_listens() -> None:
    jobs = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = jobs["scrape_configs"][0]["dns_sd_configs"][0]

    assert set(targets["names"]) == WORKERS
    assert image_environment()["FREKI_TELEMETRY__HTTP_PORT"] == str(targets["port"])
    assert image_environment()["FREKI_TELEMETRY__HTTP_HOST"] == "0.0.0.0"  # noqa: S104 - inside the network


def test_the_image_runs_as_nobody_in_particular() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM"))

    assert [line for line in lines[last:] if line.startswith("USER")] == ["USER 10001:10001"]
    assert 'ENTRYPOINT ["freki"]' in lines[last:]


def test_the_image_installs_what_the_project_asks_for() -> None:
    # docs/operations.md says how to write deploy/requirements.txt anew.
    text = (ROOT / "deploy" / "requirements.txt").read_text(encoding="utf-8")
    pinned = {
        canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    }

    for wanted in map(Requirement, PROJECT["dependencies"]):
        version = pinned.get(canonicalize_name(wanted.name), "none")
        assert version != "none", wanted
        assert wanted.specifier.contains(version, prereleases=True), wanted


def image_environment() -> dict[str, str]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    return dict(re.findall(r"\b(FREKI_TELEMETRY__HTTP_\w+)=(\S+)", text))
