"""docs/requirements.md: all requirements are there, and what their rows name exists."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from freki.cli.main import app

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs/requirements.md"
EXPECTED = [
    *(f"I{n}" for n in range(1, 19)),
    *(f"Q{n}" for n in range(1, 18)),
    *(
        f"{letter}{n}"
        for letter, most in (("A", 4), ("O", 3), ("E", 2), ("G", 4), ("P", 1))
        for n in range(1, most + 1)
    ),
]
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [A-Z]\d+ \|", line)
]
BY_ID = [pytest.param(row, id=row[0]) for row in ROWS]


def test_each_requirement_has_one_row() -> None:
    assert Counter(row[0] for row in ROWS) == Counter(EXPECTED)


@pytest.mark.parametrize("row", BY_ID)
def test_a_row_that_works_has_a_command_and_a_test_and_the_others_say_what_is_missing(row: list[str]) -> None:
    _, state, _, how, tests, missing = row
    assert state in {"●", "◐", "○"}
    assert (state == "○") == (not how) == (not tests)
    assert state == "●" or missing


@pytest.mark.parametrize("row", BY_ID)
def test_the_test_of_a_row_exists(row: list[str]) -> None:
    for named in re.findall(r"`([^`]+)`", row[4]):
        path, _, function = named.partition("::")
        source = (REPOSITORY / path).read_text(encoding="utf-8")
        if function:
            assert function in {
                node.name
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }


@pytest.mark.parametrize("row", BY_ID)
def test_commands_options_and_settings_of_a_row_exist(row: list[str]) -> None:
    settings = (REPOSITORY / "docs/settings.md").read_text(encoding="utf-8")
    for quoted in re.findall(r"`([^`]+)`", row[3] + row[5]):
        if quoted.startswith("freki "):
            _check_command(quoted)
        elif quoted.startswith("FREKI_"):
            assert f"`{quoted}`" in settings


@pytest.mark.parametrize("row", BY_ID)
def test_the_pages_that_a_row_leads_to_exist(row: list[str]) -> None:
    for page in re.findall(r"\]\(([^)#]+)", " ".join(row)):
        assert (PAGE.parent / page).is_file()


def _check_command(line: str) -> None:
    """Fail unless the command line names subcommands and options that exist."""
    command: Any = get_command(app)
    words = line.split()[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert set(words) <= options, f"{line}: {set(words) - options} of {command.name}"
