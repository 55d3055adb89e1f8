"""What is wrong with a setting is told in one line, with the variable and where to correct it."""

from pathlib import Path

import pytest
import typer

from freki.streams.commands.context import load_settings

IN_JSON = "in the environment as JSON"


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
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value)

    told = refusal(capsys)

    assert told.startswith(f"freki: {variable}: ")
    assert IN_JSON in told


def test_other_values_out_of_range_say_nothing_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FREKI_RETRIEVAL__WIDEN", '["SPELING"]')

    told = refusal(capsys)

    assert told.startswith("freki: FREKI_RETRIEVAL__WIDEN__0: ")
    assert IN_JSON not in told


def test_a_file_that_is_no_toml_is_named_with_the_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "freki.toml").write_text("[kafka\n", encoding="utf-8")

    told = refusal(capsys)

    assert told.startswith("freki: freki.toml: ")
    assert "line 1" in told
