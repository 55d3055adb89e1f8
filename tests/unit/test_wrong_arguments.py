"""What is wrong with arguments is said in a line, in words of the command line, before anything is done."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from typer.testing import CliRunner

from freki.cli.arguments import existing_path, given_path
from freki.cli.main import COMMANDS, app

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

    assert ended.exit_code == 2
    assert f"{missing} cannot be read: No such file or directory" in ended.output.replace("\n", "")


@pytest.mark.parametrize("signature", ["5", "null", "[" * 100_000])
def test_a_report_whose_signature_is_no_text_is_none(signature: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(f'{{"report": {{"documents": [], "claims": [], "tenant": "hr"}}, "signature": {signature}}}')
    key = tmp_path / "k.pub"
    key.write_text(CliRunner().invoke(app, ["audit", "keys", "make", str(tmp_path / "k")]).stdout)
    ended = CliRunner().invoke(app, ["erase", "verify", str(report), "--public-key", str(key)], env={"COLUMNS": "300"})

    assert ended.exit_code == 1
    assert f"{report} is no report of an erasure" in ended.output.replace("\n", "")


@pytest.mark.parametrize(
    "command", [("erase", "a.md", "--key", "k", "--report"), ("rectify", "a.md", "--yes", "--key", "k", "--report")]
)
def test_nothing_is_removed_where_the_report_cannot_be_written(command: tuple[str, ...], folder: Path) -> None:
    (folder / "file").touch()
    assert CliRunner().invoke(app, ["audit", "keys", "make", "k"]).exit_code == 0
    for report, why in (("file/r.json", "Not a directory"), ("missing/r.json", "No such file or directory")):
        ended = CliRunner().invoke(app, [*command, report], env={"COLUMNS": "200"})

        assert ended.exit_code == 2
        assert f"{report} cannot be written: {why}" in ended.output


@pytest.mark.parametrize(
    "command", [("keys", "make", "file/x"), ("audit", "keys", "make", "file/x"), ("schemas", "export", "file/x")]
)
def test_what_cannot_be_written_below_a_file_is_said_in_a_line(command: tuple[str, ...], folder: Path) -> None:
    (folder / "file").touch()
    ended = CliRunner().invoke(app, command, env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "file/x cannot be written" in ended.output
    assert isinstance(ended.exception, SystemExit)


def test_steps_are_not_measured_by_questions_that_nothing_answers(folder: Path) -> None:
    (folder / "trick.yaml").write_text("- question: Was kostet der Mond?\n  expected_documents: []\n", encoding="utf-8")
    ended = CliRunner().invoke(app, ["ablate", "trick.yaml"], env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "trick: nothing answers any of its questions" in ended.output


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "--out", "file/x"),
        ("tune", "--out", "file/x"),
        ("ablate", "--out", "file/x"),
        ("tune", "--report", "file/x.md"),
        ("ablate", "--report", "file/x.md"),
    ],
)
def test_nothing_is_measured_where_the_results_have_no_place(command: tuple[str, ...], folder: Path) -> None:
    (folder / "file").touch()
    ended = CliRunner().invoke(app, [*command, "missing.yaml"], env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert f"choose another {'folder' if '--out' in command else 'place'} with {command[1]}" in ended.output


_OF_DOCUMENTS = (("delete",), ("reindex",), ("erase", "--report", "r.json"), ("documents", "list"))
_CONDITIONS = ("--tenant", "--prefix", "--source", "--language", "--principal")
_EMPTY = [
    *((*command, condition, "") for command in _OF_DOCUMENTS for condition in _CONDITIONS),
    # Of a script whose variable is not set: this erased all documents of the default tenant, or of this one.
    ("erase", "--tenant", "", "--report", "r.json", "--yes"),
    ("erase", "--tenant", "hr", "--prefix", "", "--report", "r.json", "--yes"),
    *((*command, "") for command in (("delete",), ("reindex",), ("access",), ("documents", "show"))),
    *((*command, "") for command in (("documents", "history"), ("groups", "remove"), ("groups", "set", "ada"))),
    ("groups", "set", "", "hr"),
    ("groups", "set", "ada", "hr", "--tenant", ""),
    ("erase", "", "--report", "r.json"),
    ("rectify", "", "--report", "r.json"),
    *((command, "set", "", "a.md", "--reason", "r") for command in ("hold", "object")),
    *((command, "set", "4K1/26", "", "--reason", "r") for command in ("hold", "object")),
    *((command, "set", "4K1/26", "a.md", "--reason", " ") for command in ("hold", "object")),
    ("hold", "release", ""),
    ("object", "lift", ""),
    *(("generations", command, "") for command in ("switch", "drop")),
    ("generations", "compare", "", "g1"),
    *(("judge", "erase", option, "") for option in ("--document", "--as", "--query")),
    ("judge", "give", "", "a.md", "useful", "--as", "ada"),
    *(("publish", ".", option, "") for option in ("--tenant", "--principal", "--name", "--title")),
    *(("ask", "q", option, "") for option in ("--tenant", "--as", "--document")),
    ("access", "a.md", "--word", ""),
    ("export", "x", "--tenant", ""),
    ("mcp", "--tenant", ""),
    ("limits", "--tenant", ""),
    # Python takes an empty path for the current folder: its files were published, and those of others pruned.
    ("publish", ""),
    ("publish", "", "--prune"),
    ("publish", "handbook", "--root", ""),
    ("watch", ""),
    ("git", ""),
    ("export", ""),
    ("import", ""),
    ("schemas", "export", ""),
    ("settings", "check", ""),
    ("ask", "q", "--token-file", ""),
    ("erase", "a.md", "--report", ""),
    ("audit", "export", ""),
    ("audit", "verify", "--file", ""),
    ("eval", "set.yaml", "--corpus", ""),
    ("git", ".", "--branch", ""),
    ("judge", "give", "q", "a.md", "up", "--as", "ada", "--query", ""),
]


@pytest.mark.parametrize("command", _EMPTY, ids=" ".join)
def test_an_empty_word_stands_for_nothing(command: tuple[str, ...], folder: Path) -> None:
    ended = CliRunner().invoke(app, command, env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "empty" in ended.output
    assert not list(folder.iterdir())


_OF_ATTRIBUTES = (
    *(("delete",), ("reindex",), ("erase", "--report", "r.json"), ("documents", "list"), ("access",)),
    *((command, "set", "4K1/26", "--reason", "r") for command in ("hold", "object")),
    *((command, ".") for command in ("publish", "watch")),
)


@pytest.mark.parametrize("command", _OF_ATTRIBUTES, ids=" ".join)
def test_an_attribute_that_is_not_utf_8_is_refused_before_a_server_is_asked(command: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, [*command, "--attribute", "st\udce4dt=k"], env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "it is not UTF-8" in ended.output


_TEXTS = (
    ("git", ".", "--branch"),
    ("judge", "give", "q", "a.md", "up", "--as", "ada", "--query"),
    *((command, ".", option) for command in ("publish", "watch") for option in ("--language", "--kind")),
    *(("crawl", "https://example.org/", option) for option in ("--host", "--private-host", "--proxy")),
    ("documents", "list", "--after"),
    ("audit", "search", "--text"),
    ("dead-letters", "show"),
    ("dead-letters", "replay"),
    ("status", "--worker"),
)


@pytest.mark.parametrize("command", _TEXTS, ids=" ".join)
def test_a_text_that_is_not_utf_8_is_refused_by_the_name_of_its_option(command: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, [*command, "st\udce4dt"], env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "it is not UTF-8" in ended.output
    assert f"'{command[-1] if command[-1].startswith('--') else 'letter'}'" in ended.output


def callbacks(app: typer.Typer) -> Iterator[Callable[..., Any]]:
    yield from (command.callback for command in app.registered_commands if command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from callbacks(group.typer_instance)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_path_of_a_command_refuses_an_empty_word(command: str) -> None:
    module, _, name = COMMANDS[command].target.partition(":")
    found = getattr(import_module(f"freki.cli.{module}"), name)

    for callback in callbacks(found) if isinstance(found, typer.Typer) else [found]:
        for parameter in inspect.signature(callback, eval_str=True).parameters.values():
            kind, *infos = get_args(parameter.annotation) or [parameter.annotation]
            if Path in {kind, *get_args(kind), *(each for part in get_args(kind) for each in get_args(part))}:
                assert [info.parser in {given_path, existing_path} for info in infos] == [True], parameter


def test_a_path_may_have_any_bytes() -> None:
    ended = CliRunner().invoke(app, ["publish", "\udce4.md"], env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "No such file or directory" in ended.output


def test_a_name_that_a_case_cannot_have_is_a_wrong_argument() -> None:
    ended = CliRunner().invoke(app, ["hold", "set", "4K1\n26", "a.md", "--reason", "r"], env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "name: control character U+000A" in ended.output


_WAITING = (
    ("publish", "."),
    ("delete", "a.md"),
    ("reindex", "a.md"),
    ("erase", "a.md", "--report", "r.json"),
    ("rectify", "a.md", "--report", "r.json"),
    ("verify",),
)
_NUMBERS = [
    *((*command, "--patience", number) for command in _WAITING for number in ("-1", "0", "nan", "inf")),
    *(("watch", ".", option, number) for option in ("--settle", "--poll") for number in ("-1", "nan", "inf")),
    *(("git", ".", "--every", number) for number in ("-1", "0", "nan", "inf")),
    *(("retention", "check", "--days", number) for number in ("-1", "nan", "inf")),
    *(("generations", "compare", "g1", "g2", "--share", number) for number in ("-1", "nan", "inf")),
    *(("generations", "compare", "g1", "g2", "--queries", number) for number in ("-1", "0")),
    *(("publish", ".", "--priority", number) for number in ("-1", str(2**63))),
]


@pytest.mark.parametrize("command", _NUMBERS, ids=" ".join)
def test_a_number_that_means_nothing_is_refused_by_the_name_of_its_option(command: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, command, env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert f"'{command[-2]}'" in ended.output
