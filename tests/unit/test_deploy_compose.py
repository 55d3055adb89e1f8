import re
import tomllib
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.trace import NoOpTracer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from freki.cli.context import load_settings
from freki.cli.serve import STOP_S
from freki.infra.http_server.guard import check_reach
from freki.infra.models import OnnxReranker
from freki.infra.settings import Settings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import Misconfigured
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.steps.llm_reranker import LlmReranker
from freki.streams.wire.from_settings import profiles_of, topics_of
from freki.streams.wire.parts import Parts
from freki.streams.wire.query_parts import QueryParts
from freki.streams.wire.rules import limits_of, rules_of
from tests.compose import ROOT, image_environment, image_lines, process_environment, read_compose
from tests.unit.tiny_models import write_cross_encoder

COMPOSE = read_compose({})
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMAGE = f"freki:{PROJECT['version']}"
WORKERS = {name for name, service in SERVICES.items() if service.get("command", [""])[0] == "worker"}
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == IMAGE)
UNCHECKED = {"otel-collector"}
"""The image holds no program that could ask the collector how it is; Prometheus asks."""

SettingsOf = Callable[..., Settings]

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
def test_a_default_password_stays_on_this_machine(name: str) -> None:
    service = SERVICES[name]
    secret = [key for key in service.get("environment", {}) if re.search("PASSWORD|SECRET|TOKEN|ACCESS_KEY", key)]

    # Nor does a container with one share the network of the host.
    assert not secret or all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert "network_mode" not in service


def test_no_file_for_deployment_has_a_password() -> None:
    written = re.compile(r"(?i)(password|secret|token|access_key)\w*\s*[:=]\s*[^\s$#*{]")
    files = [path for path in (ROOT / "deploy").rglob("*") if path.suffix in {".yml", ".yaml", ".ini", ".toml"}]

    assert files
    assert [path for path in files if written.search(path.read_text(encoding="utf-8"))] == []


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


@pytest.fixture
def settings_of(folder: None, monkeypatch: pytest.MonkeyPatch) -> SettingsOf:  # noqa: ARG001 - a fixture
    """Read the settings as a service's process would, in the environment that Compose gives it and no other."""

    def read(name: str, **variables: str) -> Settings:
        for variable, value in process_environment(read_compose(variables)["services"][name], variables).items():
            monkeypatch.setenv(variable, value)
        return load_settings()

    return read


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_reads_its_settings_in_the_environment_that_compose_gives_it(
    name: str, settings_of: SettingsOf
) -> None:
    settings = settings_of(name)

    assert settings.kafka.bootstrap == "kafka:19092"
    assert settings.telemetry.http_port == 9464
    assert settings.telemetry.log_format == ("console" if name == "freki" else "json")
    # What nobody set is not set, though Compose hands it over.
    assert (settings.llm.url, settings.llm.model) == (None, None)
    parts = [topics_of(settings), limits_of(settings.chunking), rules_of(settings.contexts)]
    assert all([*parts, settings.retrieval.options, profiles_of(settings.retrieval)])


@pytest.mark.parametrize("name", OURS)
def test_what_is_set_for_compose_reaches_every_service_of_ours(name: str, settings_of: SettingsOf) -> None:
    settings = settings_of(
        name,
        FREKI_KAFKA__PARTITIONS="12",
        FREKI_MILVUS__GENERATION="g2",
        FREKI_TENANT="team",
        FREKI_LLM__URL="http://ollama:11434/v1",
        FREKI_LLM__MODEL="gemma3:4b",
        FREKI_CONTEXTS__LLM="true",
    )

    assert (settings.kafka.partitions, settings.milvus.generation, settings.tenant) == (12, "g2", "team")
    assert (settings.llm.url, settings.llm.model) == ("http://ollama:11434/v1", "gemma3:4b")
    assert settings.contexts.llm


async def test_the_worker_that_answers_opens_what_its_environment_names(
    settings_of: SettingsOf, tmp_path: Path
) -> None:
    with_llm = {"FREKI_LLM__URL": "http://ollama:11434/v1", "FREKI_LLM__MODEL": "gemma3:4b"}

    plain = await opened_for_answers(settings_of("retrieve"), tmp_path / "model")
    with_model = await opened_for_answers(settings_of("retrieve", **with_llm), tmp_path / "model")

    assert plain == ([OnnxReranker], False)
    assert with_model == ([LlmReranker, OnnxReranker], True)


@pytest.mark.parametrize("variable", ["FREKI_LLM__URL", "FREKI_LLM__MODEL"])
async def test_half_a_language_model_stops_the_worker_that_answers(
    variable: str, settings_of: SettingsOf, tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured, match="FREKI_LLM__URL and FREKI_LLM__MODEL must both be set"):
        await opened_for_answers(settings_of("retrieve", **{variable: "http://ollama:11434/v1"}), tmp_path / "model")


async def test_the_worker_that_chunks_asks_no_language_model_that_nobody_named(settings_of: SettingsOf) -> None:
    async with AsyncExitStack() as opened:
        parts = query_parts_of(settings_of("chunk"), opened)._parts

        assert await parts.open_context_writer() is None


def test_prometheus_asks_every_worker_where_the_image_listens() -> None:
    jobs = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = jobs["scrape_configs"][0]["dns_sd_configs"][0]

    assert set(targets["names"]) == WORKERS
    assert image_environment()["FREKI_TELEMETRY__HTTP_PORT"] == str(targets["port"])
    assert image_environment()["FREKI_TELEMETRY__HTTP_HOST"] == "0.0.0.0"  # noqa: S104 - inside the network


def test_the_service_that_is_shown_for_serve_may_listen_and_is_asked_where_it_does(
    settings_of: SettingsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = re.search(r"```yaml\n(services:.*?)```", (ROOT / "docs" / "operations.md").read_text("utf-8"), re.DOTALL)
    assert shown
    serve = yaml.safe_load(shown[1])["services"]["serve"]

    for variable, value in serve["environment"].items():
        monkeypatch.setenv(variable, value)

    settings = settings_of(serve["extends"]["service"])

    check_reach(settings.serve, tokens=settings.auth.required)
    assert f"http://127.0.0.1:{settings.serve.port}/health/ready" in serve["healthcheck"]["test"][-1]
    assert serve["ports"] == [f"127.0.0.1:{settings.serve.port}:{settings.serve.port}"]
    assert int(serve["stop_grace_period"].removesuffix("s")) > STOP_S


@pytest.mark.parametrize("target", [None, "crawler"])
def test_the_image_runs_as_nobody_in_particular(target: str | None) -> None:
    lines = image_lines(target)

    assert [line for line in lines if line.startswith("USER")][-1] == "USER 10001:10001"
    assert 'ENTRYPOINT ["freki"]' in lines


def pinned(file: str) -> dict[str, str]:
    text = (ROOT / "deploy" / file).read_text(encoding="utf-8")
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


@pytest.mark.parametrize(
    ("file", "extra", "is_all"), [("requirements.txt", "serve", True), ("requirements-crawl.txt", "crawl", False)]
)
def test_the_image_installs_what_the_project_asks_for(file: str, extra: str, *, is_all: bool) -> None:
    # docs/operations.md says how to rewrite these files.
    found = pinned(file)

    # The server that services and people ask runs from it too.
    asked = [*(PROJECT["dependencies"] if is_all else []), *PROJECT["optional-dependencies"][extra]]
    for wanted in map(Requirement, asked):
        version = found.get(canonicalize_name(wanted.name), "none")
        assert version != "none", wanted
        assert wanted.specifier.contains(version, prereleases=True), wanted


def test_the_image_with_a_browser_changes_nothing_of_the_other() -> None:
    both = pinned("requirements.txt").items() & pinned("requirements-crawl.txt").items()

    assert {name for name, _ in both} == pinned("requirements.txt").keys() & pinned("requirements-crawl.txt").keys()


def test_the_image_for_crawls_has_a_browser_where_it_is_looked_for() -> None:
    browser = image_environment("crawler")["FREKI_CRAWL__CHROMIUM"]
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    assert any("apt-get install" in line and " chromium " in line for line in image_lines("crawler"))
    assert Path(browser) == Path("/usr/bin/chromium")
    assert image_environment("crawler").items() - image_environment().items() == {("FREKI_CRAWL__CHROMIUM", browser)}
    assert not any("chromium" in line for line in image_lines())
    assert "!deploy/requirements-crawl.txt" in sent


def query_parts_of(settings: Settings, opened: AsyncExitStack) -> QueryParts:
    """Make the parts of a worker that has not gone to the broker."""
    parts = Parts(settings, NoOpTracer(), Meters(), Calls())
    opened.push_async_exit(parts)
    return QueryParts(parts)


async def opened_for_answers(settings: Settings, model: Path) -> tuple[list[type], bool]:
    """Tell which rerankers are opened, and whether a language model is asked to rephrase."""
    # The image carries its models; here is a small one.
    write_cross_encoder(model)
    models = settings.models.model_copy(update={"reranker": str(model), "cache_dir": model.parent / "cache"})
    async with AsyncExitStack() as opened:
        parts = query_parts_of(settings.model_copy(update={"models": models}), opened)
        rerankers = [type(each) for each in await parts._open_rerankers()]
        return rerankers, await parts._open_rewriter() is not None
