import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from freki.cli.main import app
from freki.schemas import Timestamp
from freki.schemas.operations import GenerationSize, Overview
from freki.streams.wire.overview import quantile

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
def test_where_nothing_runs_that_is_said_and_no_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freki.cli.status.overview", None)

    ended = CliRunner().invoke(app, ["status"])

    assert ended.exit_code == 1
    assert "nothing runs here" in ended.output
    assert "freki up" in ended.output
