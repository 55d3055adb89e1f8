"""Errors of a command that its user can mend end it in one line."""

import errno
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from freki.cli.context import command
from freki.cli.main import app


def test_a_path_that_the_user_may_not_open_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    closed = tmp_path / "closed" / "letter.txt"

    @command
    async def look() -> None:
        # What the system says to all users but root.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(closed))

    with pytest.raises(typer.Exit) as ended:
        look()

    assert ended.value.exit_code == 1
    told = "".join(capsys.readouterr().err.split("\n"))
    assert f"no permission for {closed}" in told


def test_a_lack_of_rights_that_no_path_explains_is_shown_whole() -> None:
    @command
    async def bind() -> None:
        raise PermissionError(errno.EACCES, "a port below 1024")

    with pytest.raises(PermissionError):
        bind()


@pytest.mark.parametrize(
    "words",
    [
        ("limits",),
        ("keys", "show"),
        ("audit", "verify"),
        ("audit", "keys", "show"),
        ("judge", "erase"),
        ("ask", "Who?", "--at-least", "a.md"),
        ("audit", "search", "--file", "missing"),
    ],
)
def test_a_setting_or_option_that_is_missing_or_wrong_gives_exit_code_2(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2
