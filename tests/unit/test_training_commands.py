"""Mistakes in `python -m freki.training` end with one line, before any work."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from freki.training.__main__ import app


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("weigh set=2 --out taken", "File exists: 'taken'"),
        ("weigh set --out new", "set: write FOLDER=N"),
        ("thesaurus --openthesaurus missing --wordnet missing --out new", "No such file or directory: 'missing'"),
        ("thesaurus --openthesaurus missing --wordnet missing --out taken", "File exists: 'taken'"),
        ("bundle missing new.npz", "missing"),
    ],
)
def test_a_wrong_path_or_option_ends_with_one_line_and_exit_code_2(
    command: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()

    done = CliRunner().invoke(app, command.split())

    assert done.exit_code == 2, done.output
    assert expected in done.output
    assert len(done.output.splitlines()) == 1
