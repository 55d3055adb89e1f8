"""`freki ask`: what its exit code says of the answer."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from freki.cli import ask as command
from freki.cli.main import app
from freki.schemas import ContextQuery, ContextResult
from freki.schemas.errors import Misconfigured
from tests.http_api import InProcess
from tests.unit.questions import TEXTS, Broken
from tests.unit.revisions import World, revision


class OverTopics:
    """Asks a retriever on a store in memory."""

    def __init__(self, *broken: str) -> None:
        self._broken = broken

    @asynccontextmanager
    async def open(self, *_: Any, **__: Any) -> AsyncIterator["OverTopics"]:
        yield self

    async def ask(self, query: ContextQuery, *, patience_s: float) -> ContextResult:
        assert patience_s > 0
        world = World()
        await world.feed(revision("a", 1, TEXTS))
        return await InProcess(world, Broken(world.index, *self._broken)).ask(query, token=None)


@pytest.mark.parametrize(
    ("broken", "options", "code"),
    [
        ((), [], 0),
        (("passages",), [], 0),
        ((), ["--filter", "document_id=nowhere"], 3),
        (("watermarks",), ["--filter", "document_id=nowhere"], 3),
        (("dense", "lexical"), [], 1),
        (("dense", "lexical"), ["--json"], 1),
    ],
)
def test_the_exit_code_tells_nothing_found_from_not_searched(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...], options: list[str], code: int
) -> None:
    monkeypatch.setattr(command, "open_asker", OverTopics(*broken).open)

    shown = CliRunner().invoke(app, ["ask", TEXTS[0], "--tenant", "t", *options], env={"COLUMNS": "200"})

    assert shown.exit_code == code, shown.output
    told = "the query was not answered: search.dense failed: it does not answer"
    assert (told in shown.output) == (code == 1)


@pytest.mark.parametrize("machine_output", ["--json", "--context"])
def test_a_trace_is_no_part_of_output_for_programs(monkeypatch: pytest.MonkeyPatch, machine_output: str) -> None:
    monkeypatch.setattr(command, "open_asker", OverTopics().open)
    monkeypatch.setattr(command, "TRACE_PAUSE_S", 0.0)
    asked = ["ask", TEXTS[0], "--tenant", "t", "--trace", machine_output]

    shown = CliRunner().invoke(app, asked, env={"FREKI_TELEMETRY__TRACE_DIR": "."})

    assert shown.exit_code == 0
    assert "no span of trace" in shown.stderr
    assert "no span of trace" not in shown.stdout
    assert machine_output == "--context" or json.loads(shown.stdout)["hits"]


class Nobody(OverTopics):
    """Runs no worker."""

    async def ask(self, query: ContextQuery, *, patience_s: float) -> ContextResult:
        assert query.deadline_ms is not None
        self.waited_s = patience_s
        raise TimeoutError


@pytest.mark.parametrize(
    ("options", "problem", "told"),
    [
        (
            ["--token-file", "missing"],
            "FREKI_AUTH__TOKEN_FILE=missing cannot be read: No such file or directory",
            "freki: --token-file missing cannot be read",
        ),
        (
            ["--reply-to", "team.answers"],
            "topic team.answers does not exist, or may not be read; create it with `freki topics apply`",
            "freki: --reply-to: topic team.answers does not exist, or may not be read; name one of",
        ),
    ],
)
def test_what_is_wrong_with_an_option_names_it(
    monkeypatch: pytest.MonkeyPatch, options: list[str], problem: str, told: str
) -> None:
    class Refusing:
        def open(self, *_: Any, **__: Any) -> NoReturn:
            raise Misconfigured(problem)

    monkeypatch.setattr(command, "open_asker", Refusing().open)

    shown = CliRunner().invoke(app, ["ask", "Wer zahlt?", "--tenant", "t", *options], env={"COLUMNS": "200"})

    assert shown.exit_code == 2
    assert told in " ".join(shown.output.split())


def test_where_no_worker_answers_it_waits_a_second_beyond_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Nobody()
    monkeypatch.setattr(command, "open_asker", nobody.open)

    shown = CliRunner().invoke(app, ["ask", "Wer zahlt?", "--tenant", "t", "--deadline", "3000"])

    assert (shown.exit_code, nobody.waited_s) == (1, 4.0)
    assert "no answer within 4 s" in shown.output
