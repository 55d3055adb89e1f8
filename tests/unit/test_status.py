import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from freki.cli.main import app
from freki.cli.status import watched
from freki.infra.local.state import Ports, StackState
from freki.infra.settings import KafkaSettings, Settings
from freki.schemas import Timestamp
from freki.schemas.operations import GenerationSize, Overview, StageLag, WorkerHealth
from freki.streams.wire.overview import overview, quantile

BOUNDS = (0.1, 1.0, 10.0, float("inf"))


def counted(values: list[float]) -> dict[float, float]:
    return {bound: float(sum(value <= bound for value in values)) for bound in BOUNDS}


@given(values=st.lists(st.floats(0.001, 9.9), min_size=1, max_size=50), share=st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    true = float(np.quantile(values, share, method="inverted_cdf"))

    estimated = quantile(counted(values), share)

    low = max((bound for bound in BOUNDS if bound < true), default=0.0)
    high = min(bound for bound in BOUNDS if bound >= true)
    assert low <= estimated <= high


def test_what_lies_beyond_the_last_bound_is_given_as_that_bound() -> None:
    assert quantile(counted([50.0]), 0.95) == 10.0


def test_values_count_as_spread_evenly_within_their_bucket() -> None:
    assert quantile(counted([0.5] * 10), 0.5) == pytest.approx(0.55)


@pytest.mark.usefixtures("folder")
def test_a_commit_of_a_worker_whose_clock_is_ahead_is_not_in_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    index = GenerationSize(
        name="g1", answers=True, documents=1, chunks=1, deletions=0, last_commit_at=Timestamp(90_000)
    )
    found = Overview(
        at=Timestamp(1_000),
        stages=(),
        workers=(),
        generations=(index,),
        freshness=None,
        dead_letters=0,
        problems=(),
    )

    async def overview(_: object, __: object) -> Overview:
        return found

    monkeypatch.setattr("freki.cli.status.overview", overview)

    shown = CliRunner().invoke(app, ["status", "--worker", "http://127.0.0.1:1"], env={"COLUMNS": "200"})

    assert "last commit 0 s ago" in shown.output


@pytest.mark.usefixtures("folder")
def test_records_on_the_topic_of_dead_letters_are_not_all_said_to_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Overview(
        at=Timestamp(1_000), stages=(), workers=(), generations=(), freshness=None, dead_letters=2, problems=()
    )

    async def overview(_: object, __: object) -> Overview:
        return found

    monkeypatch.setattr("freki.cli.status.overview", overview)

    shown = CliRunner().invoke(app, ["status", "--worker", "http://127.0.0.1:1"], env={"COLUMNS": "200"})

    assert "dead letters: at most 2, see `freki dead-letters list`" in shown.output


def test_on_a_low_terminal_idle_stages_make_room_for_what_follows_them() -> None:
    names = [f"stage-{number}" for number in range(20)]
    stages = [
        StageLag(stage=name, topic="documents", records=9, waiting=int(name == "stage-7"), oldest_ms=None)
        for name in names
    ]
    found = Overview(
        at=Timestamp(1_000),
        stages=tuple(stages),
        workers=(),
        generations=(),
        freshness=None,
        dead_letters=2,
        problems=("the store does not answer",),
    )
    low, high = (Console(width=80, height=height, force_terminal=True) for height in (24, 60))

    def shown(screen: Console) -> str:
        page = watched(screen, Settings(), found)
        return "".join(segment.text for line in screen.render_lines(page)[: screen.height] for segment in line)

    assert [name in shown(low) for name in names] == [name == "stage-7" for name in names]
    assert all(said in shown(low) for said in ("dead letters: at most 2", "the store does not answer", "19 stages"))
    assert all(name in shown(high) for name in names)


@pytest.mark.usefixtures("folder")
def test_where_nothing_runs_that_is_said_and_no_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.cli.status.overview", None)

    ended = CliRunner().invoke(app, ["status"])

    assert ended.exit_code == 1
    assert "nothing runs here" in ended.output
    assert "freki up" in ended.output


def test_the_client_of_the_store_is_loaded_before_the_broker_has_a_time_limit() -> None:
    """Loading it takes seconds of a busy machine, in which no answer of the broker is heard."""
    code = """
import asyncio, sys
from freki.infra.settings import Settings
from freki.streams.wire import overview

async def stages(settings):
    print("pymilvus" in sys.modules)
    return (), ()

async def nothing(settings):
    return ()

overview._stages, overview._generations, overview._letters = stages, nothing, nothing
asyncio.run(overview.overview(Settings()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"


def stack_of(directory: Path) -> StackState:
    """A local stack of two workers, the first of which is not ready."""
    (directory / "run").mkdir()
    (directory / "run" / "retrieve.ready").write_text("http://127.0.0.1:1")
    return StackState(
        pid=1,
        started_at=datetime.now(UTC),
        ports=Ports(broker=1, store=2),
        versions={},
        directory=directory,
        workers=("embed", "retrieve"),
    )


async def test_a_worker_that_died_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of(tmp_path)
    monkeypatch.setattr("freki.streams.wire.overview.stack_of", lambda _: stack)

    found = await overview(Settings())

    embed, retrieve = found.workers
    assert (embed.name, retrieve.url) == ("embed", "http://127.0.0.1:1")
    assert "logs/embed.log" in embed.wrong[0]
    assert not found.fine


async def test_of_a_worker_that_does_not_answer_it_is_said_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.streams.wire.overview._ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as suspended:
        silent = f"http://127.0.0.1:{suspended.getsockname()[1]}"

        found = await overview(Settings(), ["http://127.0.0.1:1", silent, "http:///", "127.0.0.1:9464"])

    gone, hung, malformed, bare = (each.wrong for each in found.workers)
    assert "does the worker run, with this FREKI_TELEMETRY__HTTP_PORT?" in gone[0]
    assert hung == ("no answer within 1 s: it hangs, is suspended, or its machine is overloaded",)
    assert all("is no endpoint of a worker" in wrong and "such as http://" in wrong for (wrong,) in (malformed, bare))


async def test_a_broker_that_accepts_and_never_answers_is_told_beside_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("freki.streams.wire.overview._BROKER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        kafka = KafkaSettings(bootstrap=f"127.0.0.1:{hung.getsockname()[1]}", delivery_timeout_s=3600)

        found = await overview(Settings(kafka=kafka), ["http://127.0.0.1:1"])

    assert [each.url for each in found.workers] == ["http://127.0.0.1:1"]
    assert found.dead_letters is None
    assert sum(kafka.bootstrap in problem for problem in found.problems) == 2


def test_that_nothing_became_visible_is_not_said_while_a_worker_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hung(*_: object) -> Overview:
        return Overview(
            at=Timestamp(1),
            stages=(),
            workers=(WorkerHealth(name="embed", url="http://127.0.0.1:1", wrong=("no answer: ReadTimeout('')",)),),
            generations=(),
            freshness=None,
            dead_letters=None,
            problems=(),
        )

    monkeypatch.setattr("freki.cli.status.overview", hung)
    monkeypatch.setattr("freki.cli.status.names_servers", lambda _: True)

    ended = CliRunner().invoke(app, ["status"])

    assert ended.exit_code == 1
    assert "freshness: unknown" in ended.output
