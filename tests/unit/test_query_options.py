"""Every query option is declared once: settings, validation, queries and `freki ask` agree with the declaration."""

import fcntl
import math
from collections.abc import Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from freki.cli import ask
from freki.cli.context import command
from freki.cli.main import app
from freki.cli.query_arguments import with_flags
from freki.infra.settings import RetrievalSettings
from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import validate_query
from freki.schemas import ContextQuery, QueryId, TenantId, Timestamp, Widening, WidenWhen
from freki.schemas.errors import Unavailable
from freki.schemas.query_options import QUERY_OPTIONS, QueryOption, QueryOptions

GIVEN_BY_ASK = {"query_id", "text", "asked_at", "filters"}
"""What `freki ask` gives by itself; its conditions are all `where`."""
BOUNDED = [option for option in QUERY_OPTIONS.values() if option.bounds is not None]
UNBOUNDED = [option for option in QUERY_OPTIONS.values() if option.bounds is None and option.value_type is float]


def query(**options: Any) -> ContextQuery:
    return ContextQuery(
        query_id=QueryId("q"), tenant=TenantId("t"), text="Was ist das?", asked_at=Timestamp(0), **options
    )


def refusals(option: QueryOption, value: float) -> Iterator[str]:
    """Name those that refuse a value."""
    if option.in_query:
        try:
            validate_query(query(**{option.name: value}))
        except InvalidQuery:
            yield "validation"
    if option.has_setting:
        settings: Mapping[str, Any] = {option.name: value}
        try:
            RetrievalSettings(**settings)
        except ValidationError as error:
            if any(each["loc"] == (option.name,) for each in error.errors()):
                yield "settings"


def concerned(option: QueryOption) -> list[str]:
    return ["validation"] * option.in_query + ["settings"] * option.has_setting


def test_messages_of_workers_name_the_flags_of_the_command() -> None:
    said = "allow more time with deadline_ms; its score is below min_score; rerank_time is no option"

    assert (
        with_flags(said) == "allow more time with --deadline; its score is below --min-score; rerank_time is no option"
    )


@pytest.mark.parametrize(
    ("arguments", "said"), [(["", "-n", "1"], "the question"), (["Wer?", "--tenant", "a/b"], "--tenant")]
)
def test_what_cannot_be_a_query_is_refused_before_it_is_sent(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["ask", *arguments])

    assert done.exit_code == 2
    assert done.output.startswith(f"freki: {said}: ")


@pytest.mark.parametrize("arguments", [["ask", "Wer?"], ["publish", "a.md"], ["status"], ["documents", "list"]])
def test_where_nothing_runs_every_command_says_how_to_start_it(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("Text.")

    done = CliRunner().invoke(app, arguments)

    assert done.exit_code == 1
    assert done.output.startswith(f"freki: nothing runs here: no local stack in {tmp_path} or above it")
    assert "`freki up`" in done.output


@pytest.mark.parametrize("arguments", [["ask", "Wer?"], ["status"]])
def test_while_a_stack_starts_nobody_is_told_to_start_another(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".freki").mkdir()
    with (tmp_path / ".freki" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        done = CliRunner().invoke(app, arguments)

    assert done.exit_code == 1
    assert done.output.startswith(f"freki: the local stack in {tmp_path / '.freki'} is being started or stopped")


@pytest.mark.parametrize("arguments", [["ask", "Wer?"], ["status"]])
def test_where_nothing_runs_the_state_directory_that_was_named_is_told(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FREKI_LOCAL__STATE_DIR", str(tmp_path / "elsewhere"))

    done = CliRunner().invoke(app, arguments)

    assert done.output.startswith(
        f"freki: nothing runs here: no local stack in {tmp_path / 'elsewhere'}, which FREKI_LOCAL__STATE_DIR names,"
    )


def test_an_outage_of_something_else_is_told_also_where_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    @command
    async def broken() -> None:
        raise Unavailable("the model cannot be downloaded")

    with pytest.raises(typer.Exit):
        broken()
    assert "the model cannot be downloaded" in capsys.readouterr().err


def test_ask_offers_every_field_of_a_query() -> None:
    command = typer.main.get_command(app).commands["ask"]  # type: ignore[attr-defined]
    offered = {parameter.name for parameter in command.params}

    assert {field.name for field in fields(ContextQuery)} - GIVEN_BY_ASK <= offered


def test_every_option_has_a_help_text() -> None:
    command = typer.main.get_command(app).commands["ask"]  # type: ignore[attr-defined]

    assert all(parameter.help for parameter in command.params if parameter.name in QUERY_OPTIONS)


def test_a_query_has_a_field_for_every_option_that_it_may_set_and_for_no_other() -> None:
    in_query = {name for name, option in QUERY_OPTIONS.items() if option.in_query}

    assert in_query == QUERY_OPTIONS.keys() & {field.name for field in fields(ContextQuery)}
    assert all(getattr(query(), name) is None for name in in_query)


@pytest.mark.parametrize("option", BOUNDED, ids=lambda option: option.name)
def test_settings_and_queries_have_the_same_bounds(option: QueryOption) -> None:
    low, high = option.bounds or (0, 0)
    step = 1 if option.value_type is int else 0.01

    for value in (low, high):
        assert list(refusals(option, option.value_type(value))) == []
    for value in (low - step, high + step):
        assert list(refusals(option, value)) == concerned(option)
    if option.value_type is float:
        assert list(refusals(option, math.nan)) == concerned(option)


@pytest.mark.parametrize("option", UNBOUNDED, ids=lambda option: option.name)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_without_bounds_is_finite(option: QueryOption, value: float) -> None:
    assert list(refusals(option, value)) == concerned(option)


def test_settings_have_the_declared_defaults() -> None:
    assert RetrievalSettings().options == QueryOptions()


def test_a_query_overrides_what_it_names() -> None:
    assert QueryOptions().with_overrides(query(top_k=3, widen=())) == QueryOptions(top_k=3, widen=())


class Asked(Exception):
    """Carries the query that a command asks."""


@pytest.mark.parametrize(
    ("arguments", "overrides"),
    [
        ([], {}),
        (["--top", "3"], {"top_k": 3}),
        (["-n", "4", "--deadline", "100"], {"top_k": 4, "deadline_ms": 100}),
        (["--widen", "synonyms", "--widen", "TERMS"], {"widen": (Widening.SYNONYMS, Widening.TERMS)}),
        (["--widen", "none"], {"widen": ()}),
        (["--widen-when", "always"], {"widen_when": WidenWhen.ALWAYS}),
        (["--no-parents", "--cached"], {"parents": False, "cached": True}),
        (["--expand", "2", "--expand-chunks", "0"], {"expand_documents": 2, "expand_chunks": 0}),
        (["--level", "1", "--level", "2", "--for", "phi3"], {"levels": (1, 2), "target_model": "phi3"}),
        (["--as", "ann", "--expect", "d"], {"principals": ("ann",), "expect": ("d",)}),
    ],
)
@pytest.mark.usefixtures("folder")
def test_ask_asks_what_its_flags_say(
    arguments: list[str], overrides: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asker:
        async def ask(self, asked: ContextQuery, *, patience_s: float, token: str | None = None) -> None:  # noqa: ARG002
            raise Asked(asked)

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> Any:
        yield Asker()

    monkeypatch.setattr(ask, "open_asker", opened)

    result = CliRunner().invoke(app, ["ask", "Was ist das?", *arguments])

    assert isinstance(result.exception, Asked), result.output
    (asked,) = result.exception.args
    given = {"tenant": "default", "kind": asked.kind, "text": "Was ist das?", **overrides}
    expected = query()
    for field in fields(ContextQuery):
        if field.name not in {"query_id", "asked_at"}:
            assert getattr(asked, field.name) == given.get(field.name, getattr(expected, field.name))
