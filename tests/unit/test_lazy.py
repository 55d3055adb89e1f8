"""The command line imports a command when it is called; what its list says is what the command says of itself."""

import io
import subprocess
import sys
import threading
from functools import cache, partial

import pytest
import typer
from typer.testing import CliRunner

from freki.cli import lazy
from freki.cli.lazy import Lazy, lazy_group
from freki.cli.main import COMMANDS, app
from freki.cli.slow import message_if_slow


@cache
def modules_after(code: str) -> frozenset[str]:
    """Return the modules that a new process has imported after some code."""
    seen = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_line_of_the_help_of_each_command(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]

    assert command.name == name
    assert command.help.split("\n")[0] == COMMANDS[name].summary


def test_an_unknown_command_is_refused_with_one_that_is_like_it() -> None:
    refused = CliRunner().invoke(app, ["pubish"])

    assert refused.exit_code == 2
    assert "publish" in refused.output


def test_a_command_imports_only_its_own_module() -> None:
    """In a process of its own, which has imported nothing yet."""
    modules = modules_after("import freki.cli.main as m; m.app(['settings', '--help'], standalone_mode=False)")

    assert "freki.cli.settings" in modules
    assert not {"freki.cli.ask", "freki.streams.app", "pymilvus", "faust"} & modules


def test_a_question_is_asked_without_store_models_stages_and_administrator_of_topics() -> None:
    assert not modules_after("import freki.cli.ask") & {"pymilvus", "onnxruntime", "faust", "kafka"}


def test_a_command_whose_module_is_missing_breaks_no_other() -> None:
    declared = {"broken": Lazy("no_such_module:broken", "Cannot be imported."), "settings": COMMANDS["settings"]}
    some = typer.Typer(cls=lazy_group(declared), no_args_is_help=True)
    some.callback()(lambda: None)

    assert "Cannot be imported." in CliRunner().invoke(some, ["--help"]).output
    assert CliRunner().invoke(some, ["settings", "--help"]).exit_code == 0


def test_garbage_is_collected_again_once_a_command_is_imported() -> None:
    seen = "import gc, freki.cli.main as m; m.app(['settings', '--help'], standalone_mode=False); print(gc.isenabled())"

    shown = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout

    assert shown.splitlines()[-1] == "True"


def test_a_worker_loads_nothing_that_only_builds_models() -> None:
    assert not modules_after("import freki.cli.worker") & {"onnx", "huggingface_hub", "freki.infra.models.bert"}


def test_the_client_of_the_store_and_retrieval_are_loaded_by_stages_that_use_them() -> None:
    assert not modules_after("import freki.cli.worker") & {"pymilvus", "freki.streams.retrieve.retriever"}


def test_commands_that_only_use_topics_load_no_store_models_and_stages() -> None:
    """In one process: what all of them together do not load, none loads."""
    modules = modules_after("from freki.cli import topics, hold, objection, judge, dead_letters, serve")

    assert "freki.cli.serve" in modules
    assert not {"pymilvus", "onnxruntime", "faust"} & modules


def test_a_command_says_that_it_loads_libraries_where_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    told, written = io.StringIO(), threading.Event()
    monkeypatch.setattr(told, "flush", written.set)
    monkeypatch.setattr(told, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setattr(lazy, "message_if_slow", partial(message_if_slow, after_s=0))
    monkeypatch.setattr(lazy, "import_module", lambda _: written.wait(60))

    lazy._imported("no_such_module")

    assert written.is_set()
    assert told.getvalue() == "loading the libraries of this command …\n"
