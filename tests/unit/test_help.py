"""`freki … --help`: what a terminal of 80 columns shows of it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from freki.cli.main import app


def commands(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    yield " ".join(path), command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


def test_no_word_of_a_help_is_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    for name, command in commands(typer.main.get_command(app), "freki"):
        command(["--help"], prog_name=name, standalone_mode=False)
        shown = capsys.readouterr().out
        assert "--help" in shown
        assert not re.search(r"…(?=\s)", shown), name
