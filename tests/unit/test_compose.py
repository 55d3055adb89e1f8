"""The tests read docker-compose.yml as Compose does."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compose import ROOT, BadCompose, image_environment, interpolate, process_environment, read_compose

SET = {"VAR": "value", "EMPTY": "", "OTHER": "other"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$VAR and ${VAR}", "value and value"),
        ("${UNSET}", ""),
        ("${VAR:-default} ${EMPTY:-default} ${UNSET:-default}", "value default default"),
        ("${VAR-default} ${EMPTY-default} ${UNSET-default}", "value  default"),
        ("${UNSET:-}", ""),
        ("${VAR:?said} ${EMPTY?said}", "value "),
        ("${VAR:+replacement} ${EMPTY:+replacement} ${EMPTY+replacement} ${UNSET+x}", "replacement  replacement "),
        ("${UNSET:-${OTHER}} ${UNSET:-${EMPTY:-deep}}", "other deep"),
        ("$$VAR $${VAR}", "$VAR ${VAR}"),
        ("${UNSET:-http://host:8081/v1}", "http://host:8081/v1"),
    ],
)
def test_variables_are_replaced_as_the_reference_says(text: str, expected: str) -> None:
    assert interpolate(text, SET) == expected


@pytest.mark.parametrize("text", ["${UNSET:?said}", "${EMPTY:?said}", "${UNSET?said}", "${VAR", "$", "${}", "${VAR!x}"])
def test_what_compose_refuses_is_refused(text: str) -> None:
    with pytest.raises(BadCompose):
        interpolate(text, SET)


def test_anchors_are_merged_and_values_interpolated_but_no_names(tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text(
        """
        x-base: &base
          environment: &shared {"$VAR": "${VAR:-none}", KEPT: one, NUMBER: 3}
        services:
          first: {<<: *base}
          second:
            <<: *base
            environment: {<<: *shared, KEPT: two}
        """,
        encoding="utf-8",
    )

    services = read_compose(SET, file)["services"]

    assert services["first"]["environment"] == {"$VAR": "value", "KEPT": "one", "NUMBER": 3}
    assert services["second"]["environment"] == {"$VAR": "value", "KEPT": "two", "NUMBER": 3}


def test_a_process_has_the_environment_of_its_image_and_its_service() -> None:
    service = {"environment": {"FREKI_TELEMETRY__LOG_FORMAT": "console", "NUMBER": 3, "VAR": None, "UNSET": None}}

    environment = process_environment(service, SET)

    assert image_environment()["FREKI_TELEMETRY__LOG_FORMAT"] == "json"
    assert environment.items() >= {"FREKI_TELEMETRY__LOG_FORMAT": "console", "NUMBER": "3", "VAR": "value"}.items()
    assert "UNSET" not in environment
    with pytest.raises(BadCompose, match="FREKI_X is True: quote it"):
        process_environment({"environment": {"FREKI_X": True}}, SET)


def test_docker_compose_reads_the_same(tmp_path: Path) -> None:
    docker = shutil.which("docker") or ""
    if not docker or subprocess.run([docker, "compose", "version"], check=False, capture_output=True).returncode:
        pytest.skip("no docker compose here")
    (tmp_path / "empty.env").touch()
    asked = ["--env-file", "empty.env", "--file", str(ROOT / "docker-compose.yml"), "--profile", "*", "config"]
    place = {"PATH": str(Path(docker).parent), "HOME": str(tmp_path)}

    printed = subprocess.run(
        [docker, "compose", *asked], check=True, capture_output=True, cwd=tmp_path, env=place
    ).stdout

    assert environments(yaml.safe_load(printed)) == environments(read_compose({}))


def environments(compose: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        name: {variable: str(value) for variable, value in service.get("environment", {}).items()}
        for name, service in compose["services"].items()
    }
