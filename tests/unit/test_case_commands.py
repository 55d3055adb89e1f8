"""`freki hold` and `freki object`: what is wrong with their arguments is said in words of the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from freki.cli.main import app

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("command", ["hold", "object"])
@pytest.mark.parametrize("covered", [(), ("a.md", "--all"), ("--all", "--attribute", "team=hr")])
def test_what_covers_nothing_or_several_things_is_refused_by_the_names_of_options(
    command: str, covered: tuple[str, ...]
) -> None:
    ended = CliRunner().invoke(app, [command, "set", "4K1/26", *covered, "--reason", "r"], env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "name documents, or give --attribute, or --all" in ended.output


@pytest.mark.parametrize("command", [("hold", "release"), ("object", "lift")])
def test_what_ends_a_case_does_not_say_that_it_replaces_one(command: tuple[str, str]) -> None:
    assert "replaces" not in CliRunner().invoke(app, [*command, "--help"]).output


def test_a_report_that_is_not_there_is_not_called_one_of_another_kind(tmp_path: Path) -> None:
    missing = tmp_path / "report.json"
    ended = CliRunner().invoke(
        app, ["erase", "verify", str(missing), "--public-key", str(missing)], env={"COLUMNS": "300"}
    )

    assert ended.exit_code == 1
    assert f"{missing} cannot be read: No such file or directory" in ended.output.replace("\n", "")
