"""What is wrong with a setting is told in one line, with the variable and where to correct it."""

from pathlib import Path

import pytest
import typer

from freki.streams.commands.context import load_settings

IN_JSON = "in the environment as JSON"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give a folder without a freki.toml, and start there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(typer.Exit) as ended:
        load_settings()
    assert ended.value.exit_code == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FREKI_RETRIEVAL__WIDEN", "[SPELLING"),
        ("FREKI_RETRIEVAL__PROFILES", "phi3"),
        ("FREKI_RETRIEVAL__PROFILES__PHI3", '{"hits": 3'),
        ("FREKI_RETRIEVAL", '{"widen'),
        ("FREKI_RELAYS", "[x"),
    ],
)
def test_a_variable_that_is_no_json_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)

    told = refusal(capsys)

    assert told.startswith(f"freki: {variable}: ")
    assert IN_JSON in told


def test_other_values_out_of_range_say_nothing_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FREKI_RETRIEVAL__WIDEN", '["SPELING"]')

    told = refusal(capsys)

    assert told.startswith("freki: FREKI_RETRIEVAL__WIDEN__0: ")
    assert IN_JSON not in told


def test_a_file_that_is_no_toml_is_named_with_the_place(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "freki.toml").write_text("[kafka\n", encoding="utf-8")

    told = refusal(capsys)

    assert told.startswith("freki: freki.toml: ")
    assert "line 1" in told


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("FREKI_RETRIVAL__TOP_K", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_RETRIEVAL_TOP_K", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_RETRIEVAL__TOPK", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("freki_retrieval__topk", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_RETRIEVAL__TOP_K__", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_TENANT__NAME", "did you mean FREKI_TENANT?"),
        ("FREKI_TENNANT", "did you mean FREKI_TENANT?"),
        ("FREKI_KAFKA__PASWORD", "did you mean FREKI_KAFKA__PASSWORD?"),
        ("FREKI_MILVUS__BOOTSTRAP", "did you mean FREKI_KAFKA__BOOTSTRAP?"),
        ("FREKI_MODELS__EMBEDERS__CODE", "did you mean FREKI_MODELS__EMBEDDERS__CODE?"),
        ("FREKI_MODELS__EMBEDDERS__", "did you mean FREKI_MODELS__EMBEDDERS?"),
        ("FREKI_RETRIEVAL__PROFILES__PHI3__HIT", "did you mean FREKI_RETRIEVAL__PROFILES__PHI3__HITS?"),
        ("FREKI_MCP_PORT", "did you mean FREKI_MCP__PORT?"),
        ("FREKI_FOO", "docs/settings.md lists all"),
        ("FREKI_", "docs/settings.md lists all"),
        ("FREKI_TESTING", "docs/settings.md lists all"),
    ],
)
@pytest.mark.parametrize("value", ["3", ""])
def test_a_variable_that_names_no_setting_is_refused_with_the_nearest(
    variable: str, told: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)

    printed = refusal(capsys)

    assert printed.startswith(f"freki: {variable}: there is no such setting; ")
    assert printed.endswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tennant = 'x'", "FREKI_TENNANT, or tennant in freki.toml: there is no such setting; did you mean tenant?"),
        ("[retrival]\ntop_k = 3", "retrival in freki.toml: there is no such setting; did you mean retrieval?"),
        (
            "[retrieval]\ntopk = 3",
            "retrieval.topk in freki.toml: there is no such setting; did you mean retrieval.top_k",
        ),
        ("[chunking.pdf]\nmax = 3", "chunking.pdf.max in freki.toml: there is no such setting; "),
        ("FREKI_TENANT = 'x'", "FREKI_TENANT in freki.toml: there is no such setting; did you mean tenant?"),
        (
            '[[relays]]\ntopik = "x"',
            "relays.0.topik in freki.toml: there is no such setting; did you mean relays.0.topic?",
        ),
    ],
)
def test_a_line_of_the_file_that_names_no_setting_is_refused_with_the_nearest(
    text: str, told: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "freki.toml").write_text(text, encoding="utf-8")

    assert told in refusal(capsys)


def test_every_wrong_setting_has_a_line_of_its_own_and_no_value_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FREKI_LLM__APIKEY", "s3cret")
    monkeypatch.setenv("FREKI_RETRIEVAL__TOP_K", "s3cret")
    monkeypatch.setenv("FREKI_REGISTRY", '{"pasword": "s3cret"}')

    with pytest.raises(typer.Exit):
        load_settings()

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("freki: FREKI_") and "s3cret" not in line for line in lines)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FREKI_TEST_STACK", "local"),
        ("freki_test_outage_s", "1"),
        # Kubernetes, for Services with the names freki and freki-milvus.
        ("FREKI_SERVICE_HOST", "10.0.0.1"),
        ("FREKI_SERVICE_PORT_METRICS", "9464"),
        ("FREKI_PORT", "tcp://10.0.0.1:9464"),
        ("FREKI_MILVUS_PORT", "tcp://10.0.0.1:19530"),
        ("FREKI_MILVUS_PORT_19530_TCP", "tcp://10.0.0.1:19530"),
        ("FREKI_MILVUS_PORT_19530_TCP_ADDR", "10.0.0.1"),
        # Settings in other ways of writing.
        ("freki_retrieval__top_k", "3"),
        ("FREKI_RETRIEVAL", '{"top_k": 3}'),
        ("FREKI_MODELS__EMBEDDERS__code", "coder"),
        ("NOT_FREKI_TENNANT", "x"),
    ],
)
def test_other_variables_are_let_pass(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)

    load_settings()


@pytest.mark.parametrize(("content", "told"), [(b"\xff", "is not UTF-8 at byte 0"), (None, "cannot be read")])
def test_a_file_that_cannot_be_read_is_named(
    content: bytes | None,
    told: str,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> None:
    file = folder / "freki.toml"
    if content is None:
        # Reading it fails, for root too.
        file.symlink_to("/proc/self/mem")
    else:
        file.write_bytes(content)

    printed = refusal(capsys)

    assert "freki.toml" in printed
    assert told in printed
