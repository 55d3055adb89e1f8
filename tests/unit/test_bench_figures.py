from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from bench.pipeline.ground import percentiles
from bench.pipeline.query import MODEL, STORE, reranked, shared, stage_times
from bench.pipeline.write import Section, markdown
from freki.schemas import ContextQuery, QueryId, StageTime, TenantId, Timestamp
from tests.unit.evaluations import result

STAGES = (*MODEL, *STORE, "analyse", "fuse", "diversify", "assemble")
times = st.floats(0, 1e4, allow_nan=False)


@given(values=st.lists(times, min_size=1, max_size=200))
def test_percentiles_are_values_by_the_nearest_rank(values: list[float]) -> None:
    found = percentiles(values)

    oracle = np.percentile(values, (50, 95, 99), method="inverted_cdf")
    assert list(found) == ["p50", "p95", "p99"]
    assert list(found.values()) == oracle.tolist()


def test_nothing_has_no_percentiles() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentiles([])


@given(stages=st.dictionaries(st.sampled_from(STAGES), times), rest=times)
def test_the_parts_of_a_question_add_up_to_it(stages: dict[str, float], rest: float) -> None:
    whole = sum(stages.values()) + rest

    parts = shared(stages, whole)

    assert parts["model"] + parts["store"] + parts["steps"] + parts["transport"] == pytest.approx(whole, abs=1e-6)
    assert parts["own"] == pytest.approx(parts["steps"] + parts["transport"], abs=1e-6)
    assert min(parts.values()) >= -1e-6


def test_searches_at_once_cost_as_much_as_the_longer_one() -> None:
    parts = shared({"search.dense": 7.0, "search.lexical": 4.0, "load": 2.0, "embed": 3.0, "fuse": 1.0}, 20.0)

    assert parts == {"model": 3.0, "store": 9.0, "steps": 1.0, "transport": 7.0, "own": 8.0}


def test_a_stage_that_ran_twice_counts_twice() -> None:
    stages = [StageTime(stage="load", milliseconds=milliseconds, items=1) for milliseconds in (2.0, 3.0)]

    assert stage_times(stages) == {"load": 5.0}


@pytest.mark.parametrize(
    ("reranker", "stages", "number"),
    [
        ("local", {"match": 200}, 200),
        ("remote", {"match": 200, "rerank": 16}, 200),
        ("remote", {"rerank": 16}, 16),
        ("cosine", {"match": 0, "rerank": 16}, 0),
        ("none", {"match": 0}, 0),
        ("local", {}, 0),
    ],
)
def test_candidates_of_late_interaction_and_of_models_count_as_reranked(
    reranker: str, stages: dict[str, int], number: int
) -> None:
    query = ContextQuery(query_id=QueryId("q"), tenant=TenantId("t"), text="Frist", asked_at=Timestamp(0))
    times_of = tuple(StageTime(stage=name, milliseconds=1.0, items=items) for name, items in stages.items())

    assert reranked(replace(result(query, [], reranker=reranker), stages=times_of)) == number


def test_a_page_says_on_what_and_how_it_was_measured() -> None:
    table = Table(title="Speed", caption="of one run")
    table.add_column("what")
    table.add_column("ms", justify="right")
    table.add_row("[bold]load[/]", "3")
    about = {"commit": "abc", "dirty": True, "processor": "P", "cores": 2, "memory_gib": 8.0, "system": "Linux"}
    run = {"documents": "freki/samples", "sizes": [10], "quick": True, "seed": 1}
    measured = {"began_at": "2026-01-01T00:00:00+00:00", "seconds": 3, "run": run, "figures": {}}
    section = Section(title="Queries", measured=measured, tables=[table], drawings=[Path("results/query.png")])

    page = markdown({**about, "versions": {"python": "3.11"}}, [section])

    assert "Commit abc with changes that are not committed on P, 2 cores, 8.0 GiB." in page
    assert "freki/samples, seed 1; a quick run" in page
    assert "**Speed**\n\n| what | ms |\n| --- | ---: |\n| load | 3 |\n\nof one run\n" in page
    assert page.endswith("![query](query.png)\n")
