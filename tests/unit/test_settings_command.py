"""`freki settings`: values with their origins, no secret, and a file that says what is set without it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from typing import Any

import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.settings import Settings
from freki.infra.settings.inspect import EffectiveSetting, Origin, given, template
from freki.infra.settings.read import read_settings
from freki.schemas.masking import MASK

pytestmark = pytest.mark.usefixtures("folder")
MARK = "correct-horse"


def freki(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def shown(*arguments: str) -> dict[str, Any]:
    code, printed = freki("settings", "show", "--json", *arguments)
    assert code == 0
    return {one["variable"]: one for one in json.loads(printed)}


def secrets() -> list[str]:
    found = [one.variable for one in given(Settings(), read=Settings()) if one.variable.endswith("_FILE")]
    of_files = {name.removesuffix("_FILE") for name in found}
    return sorted(of_files & {one.variable for one in given(Settings(), read=Settings())})


def test_each_value_has_its_origin(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "freki.toml").write_text('[kafka]\nbootstrap = "one:9092"\npartitions = 7\n', encoding="utf-8")
    (folder / "password").write_text(MARK, encoding="utf-8")
    monkeypatch.setenv("FREKI_KAFKA__BOOTSTRAP", "two:9092")
    monkeypatch.setenv("FREKI_REGISTRY__PASSWORD_FILE", str(folder / "password"))

    found = {one.variable: one for one in given(read_settings(), read=read_settings())}

    assert found["FREKI_KAFKA__BOOTSTRAP"] == EffectiveSetting("FREKI_KAFKA__BOOTSTRAP", "two:9092", Origin.ENVIRONMENT)
    assert found["FREKI_KAFKA__PARTITIONS"] == EffectiveSetting("FREKI_KAFKA__PARTITIONS", 7, Origin.FILE)
    assert found["FREKI_REGISTRY__PASSWORD"] == EffectiveSetting("FREKI_REGISTRY__PASSWORD", MASK, Origin.ENVIRONMENT)
    assert found["FREKI_TENANT"] == EffectiveSetting("FREKI_TENANT", "default", Origin.DEFAULT)


def test_a_section_in_one_variable_is_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_KAFKA", '{"partitions": 12}')

    assert shown("kafka__part", "--changed") == {
        "FREKI_KAFKA__PARTITIONS": {"variable": "FREKI_KAFKA__PARTITIONS", "value": 12, "origin": "environment"}
    }


@pytest.mark.parametrize("as_json", [False, True])
def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch, *, as_json: bool) -> None:
    names = [name for name in secrets() if not name.startswith(("FREKI_KAFKA__OAUTH", "FREKI_AUTH"))]
    assert len(names) > 5
    for name in names:
        monkeypatch.setenv(name, MARK)
    monkeypatch.setenv("FREKI_CRAWL__PROXY_USER", "ada")
    monkeypatch.setenv("FREKI_MILVUS__URI", f"https://root:{MARK}@milvus:19530")

    code, printed = freki("settings", "show", *(["--json"] if as_json else []))

    assert code == 0
    assert MARK not in printed
    assert printed.count(MASK) == len(names) + 1


def test_the_written_file_changes_nothing_as_it_is_and_uncommented(folder: Path) -> None:
    before = read_settings()

    code, _ = freki("settings", "init")

    assert code == 0
    assert read_settings() == before
    written = (folder / "freki.toml").read_text(encoding="utf-8")
    (folder / "freki.toml").write_text(re.sub("^# (?=[a-z_]+ = )", "", written, flags=re.MULTILINE), encoding="utf-8")
    assert read_settings() == before


def test_what_is_set_is_not_written_as_default(monkeypatch: pytest.MonkeyPatch) -> None:
    before = template()
    monkeypatch.setenv("FREKI_TENANT", MARK)

    assert template() == before


def test_a_file_that_exists_is_not_overwritten(folder: Path) -> None:
    (folder / "freki.toml").write_text("tenant = 'hr'\n", encoding="utf-8")

    code, printed = freki("settings", "init")

    assert code == 2
    assert "freki.toml exists" in printed
    assert read_settings().tenant == "hr"


def test_a_file_that_found_no_room_can_be_written_again() -> None:
    limits = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        code, printed = freki("settings", "init")
    finally:
        setrlimit(RLIMIT_FSIZE, limits)

    assert code == 2
    assert "freki.toml cannot be written: File too large" in printed
    assert freki("settings", "init")[0] == 0


def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_KAFKA__PARTITIONS", MARK)

    code, printed = freki("settings", "check")

    assert code == 2
    assert "FREKI_KAFKA__PARTITIONS" in printed
    assert MARK not in printed


def test_the_schema_has_every_section_and_no_null() -> None:
    code, printed = freki("settings", "schema")

    assert code == 0
    assert set(json.loads(printed)["properties"]) == set(Settings.model_fields)
    assert '"null"' not in printed


def test_the_version_is_told() -> None:
    code, printed = freki("--version")

    assert code == 0
    assert re.fullmatch(r"freki \d+\.\d+\.\d+\S*\n", printed)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("Was?", "--alpha", "3"), "--alpha"),
        (("Was?", "--deadline", "-1"), "--deadline"),
        ((" ",), "the question: it is empty"),
        (("Was?", "--tenant", "a\nb"), "--tenant: control character"),
        (("Was?", "--level", "7"), "--level: give some of (0, 1, 2), or leave it out"),
        (("Was?", "--min-score", "nan"), "--min-score: nan is no number; give one, or leave it out"),
        (("Was?", "--at-least", "a=0"), "--at-least: 0 is outside"),
        (("--kind", "chunk_read"), "--chunk: CHUNK_READ needs some, or --document"),
        (("Was?", "--reply-to", ""), "--reply-to"),
        (("Was?", "--tenant", "\udce4"), "it is not UTF-8"),
        (("Was?", "--filter", "colour=red"), "--filter: at character 1: 'colour' cannot be filtered on"),
        (("Was?", "--filter", "language=de", "--filter", "(name=a"), "--filter: at character 8: ) was expected"),
        (("Was?", "--chunk", "x"), "--chunk: 'x' is no id of a chunk"),
        (("Was?", "--for", " "), "--for: it is empty"),
        (("Was?", "--as", ""), "--as: it is empty"),
    ],
)
def test_what_no_query_may_say_is_refused_before_it_is_sent(arguments: tuple[str, ...], expected: str) -> None:
    # No broker listens here: a query that is sent ends otherwise.
    code, printed = freki("ask", *arguments)

    assert code == 2, printed
    assert expected in " ".join(printed.split())


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ('[models]\nreranker = "late"', "FREKI_MODELS__RERANKER=late"),
        ('[models.embedders]\ncode = "nothing"', "FREKI_MODELS__EMBEDDERS__CODE=nothing"),
        ("[chunking]\nmax_tokens = 2000", "FREKI_CHUNKING__MAX_TOKENS=2000"),
        ('[kafka]\nsecurity = "SASL_SSL"', "FREKI_KAFKA__USERNAME"),
        ('[registry]\nurl = "http://host"\nusername = "me"', "FREKI_REGISTRY__PASSWORD"),
        ('[llm]\nurl = "http://host"', "FREKI_LLM__MODEL"),
        ('[retrieval]\nthesaurus = "missing.txt"', "FREKI_RETRIEVAL__THESAURUS"),
        (
            '[retrieval]\nreply_topics = ["freki.contexts.v1", "freki.documents.v1"]',
            "names freki.documents.v1, of Freki",
        ),
        ('[retrieval]\nreply_topics = ["freki.outcomes.v1.g7"]', "FREKI_RETRIEVAL__REPLY_TOPICS"),
    ],
)
def test_settings_that_a_worker_refuses_at_its_start_are_not_called_valid(
    section: str, setting: str, folder: Path
) -> None:
    (folder / "new.toml").write_text(section, encoding="utf-8")
    assert freki("settings", "check")[0] == 0

    code, printed = freki("settings", "check", "new.toml")

    assert (code, setting in printed) == (2, True)


def test_a_file_is_checked_before_it_is_put_in_place(folder: Path) -> None:
    (folder / "freki.toml").write_text("[retrieval]\ntop_k = 4\n", encoding="utf-8")
    (folder / "new.toml").write_text("[retrieval]\ntop_k = 5\n[kafka]\npartitions = 9\n", encoding="utf-8")
    (folder / "bad.toml").write_text("[retrieval]\ntop_k = 0\n", encoding="utf-8")

    code, printed = freki("settings", "check", "new.toml")

    assert code == 0
    assert "FREKI_RETRIEVAL__TOP_K: workers and `freki serve` take it over" in printed
    assert "FREKI_KAFKA__PARTITIONS: needs a restart" in printed
    assert "refused as a whole" in printed
    assert freki("settings", "check", "bad.toml")[0] == 2
    code, printed = freki("settings", "check", "missing.toml")
    assert (code, "missing.toml does not exist" in printed) == (2, True)
    code, printed = freki("settings", "check", str(folder))
    assert (code, "is no file" in printed) == (2, True)


@pytest.mark.parametrize(
    "given",
    [
        {"AUDIT__KEY_FILE": "gone.pem"},
        {"AUTH__TOKEN_FILE": "gone.jwt"},
        {"AUTH__JWKS": "gone.json", "AUTH__ISSUER": "https://issuer.example.org", "AUTH__AUDIENCE": "freki"},
        {"CRAWL__COOKIES": "gone.txt"},
        {"ENCRYPTION__KEY_FILE": "gone.key", "ENCRYPTION__KEYS": "local"},
        {"ERASURE__KEY_FILE": "gone.pem"},
        {"SERVE__CERT_FILE": "gone.pem", "SERVE__KEY_FILE": "gone.key"},
        {"VERTEX_RERANKER__TOKEN_FILE": "gone.jwt"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_file_that_is_missing_is_named_with_its_setting(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"FREKI_{name}", value)

    code, printed = freki("settings", "check")

    assert code == 2
    name, value = next(iter(given.items()))
    assert f"FREKI_{name}={value}" in printed
    assert "No such file or directory" in printed


def test_files_that_are_written_need_not_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_READY_FILE", "ready")
    monkeypatch.setenv("FREKI_AUDIT__DIRECTORY", "audit")

    assert freki("settings", "check")[0] == 0


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_command_does_its_work_where_standard_streams_are_closed(closed: str, folder: Path) -> None:
    command = f"{sys.executable} -m freki settings init written.toml {closed}"

    ended = subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=False)

    assert ended.returncode == 0
    assert (folder / "written.toml").is_file()
