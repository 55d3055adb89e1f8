"""Plans for clusters: what must hold whatever the numbers are."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pipeline.basis import Basis, Known, Origin, basis_of
from bench.pipeline.cost import main
from bench.pipeline.sizing import WORKER, Index, Load, Prices, memory_bytes, plan, query_core_s, sensitivity
from freki.infra.settings import ParsingSettings


def known(value: float) -> Known:
    return Known(value, "", Origin.MEASURED, "")


BASIS = Basis(
    chunk_cpu_ms=known(1),
    embed_cpu_ms=known(15),
    retrieve_cpu_ms=known(300),
    lexical_cpu_ms_per_million=known(10),
    embedded_per_change=known(3),
    chunks_per_document=known(60),
    dimensions=known(384),
    row_bytes=known(3_000),
    terms_per_chunk=known(50),
    document_bytes=known(500),
    work_bytes=known(2_000),
    answer_bytes=known(20_000),
)
AT_REST_MB = 420
"""Memory of a worker that chunks, in MiB: docs/operations.md."""
LOAD = Load(chunks=1e8, queries_per_s=50, changes_per_s=100)
indexes = st.sampled_from(list(Index))
rates = st.floats(0, 10_000)
loads = st.builds(
    Load, chunks=st.floats(1, 1e11), queries_per_s=rates, changes_per_s=rates, searched_share=st.floats(0.001, 1)
)
factors = st.floats(1, 1_000)


def euros(load: Load, index: Index) -> float:
    return plan(load, index, BASIS).euros(Prices())


@given(load=loads, index=indexes, factor=factors, what=st.sampled_from(["chunks", "queries_per_s", "changes_per_s"]))
def test_more_of_anything_never_costs_less(load: Load, index: Index, factor: float, what: str) -> None:
    more = replace(load, **{what: getattr(load, what) * factor})

    assert euros(more, index) >= euros(load, index)


@given(load=loads, index=indexes, factor=factors)
def test_more_of_anything_never_takes_fewer_machines(load: Load, index: Index, factor: float) -> None:
    more = replace(load, chunks=load.chunks * factor, queries_per_s=load.queries_per_s * factor)

    before, after = (plan(each, index, BASIS) for each in (load, more))

    assert all(old.count <= new.count for old, new in zip(before.items, after.items, strict=True))
    assert before.partitions <= after.partitions


@given(load=loads, index=indexes)
def test_searching_a_part_of_the_index_never_costs_more_than_all_of_it(load: Load, index: Index) -> None:
    assert euros(load, index) <= euros(replace(load, searched_share=1.0), index)


@given(load=loads, index=indexes)
def test_each_worker_finds_a_partition(load: Load, index: Index) -> None:
    found = plan(load, index, BASIS)

    assert all(item.count <= found.partitions for item in found.items if item.name.endswith(" workers"))


@given(load=loads, index=indexes)
def test_a_plan_costs_what_its_items_cost_and_nothing_at_no_price(load: Load, index: Index) -> None:
    found = plan(load, index, BASIS)
    free = Prices(vcpu_hour=0, gib_hour=0, nvme_tb_month=0, block_tb_month=0, object_tb_month=0)

    assert found.euros(Prices()) == pytest.approx(sum(item.euros(Prices()) for item in found.items))
    assert found.euros(free) == 0


@given(load=loads, index=indexes, factor=factors)
def test_a_query_costs_in_proportion_to_the_chunks_that_it_searches(load: Load, index: Index, factor: float) -> None:
    more = replace(load, chunks=load.chunks * factor)

    assert query_core_s(more, index, BASIS) == pytest.approx(factor * query_core_s(load, index, BASIS))


def test_indexes_that_compress_take_less_memory_than_hnsw() -> None:
    hnsw, sq8, diskann = (memory_bytes(index, BASIS) for index in (Index.HNSW, Index.IVF_SQ8, Index.DISKANN))

    assert diskann < sq8 < hnsw


def test_the_memory_of_hnsw_is_near_what_the_vendors_tool_says() -> None:
    # Milvus Sizing Tool: 1 M vectors of 128 dimensions with M 30 load as 1.1 GiB; its rows have no text.
    basis = replace(
        BASIS,
        dimensions=known(128),
        hnsw_links=known(60),
        terms_per_chunk=known(0),
        key_bytes=known(0),
        row_bytes=known(0),
    )

    gib = 1e6 * memory_bytes(Index.HNSW, basis) / basis.memory_fill.value / 2**30

    assert gib == pytest.approx(1.1, rel=0.2)


def test_workers_are_as_many_as_their_work_needs() -> None:
    workers = plan(LOAD, Index.HNSW, BASIS).items[:3]

    # 6000 chunks/s x 1 ms / 0.6; 300 chunks/s x 15 ms / 0.6 / 2 cores; 50 queries/s x 300 ms / 0.6 / 2 cores.
    assert [worker.count for worker in workers] == [10, 4, 13]


def test_a_billion_rows_fill_a_shard_and_eight_shards_a_collection() -> None:
    shards = plan(replace(LOAD, chunks=1e10), Index.DISKANN, BASIS)

    assert shards.collections == 2
    assert any("10 shards" in note for note in shards.notes)


@pytest.mark.parametrize(
    "change",
    [
        {"chunks": 0},
        {"chunks": math.inf},
        {"chunks": math.nan},
        {"queries_per_s": -1},
        {"queries_per_s": math.nan},
        {"changes_per_s": -1},
        {"changes_per_s": math.inf},
        {"searched_share": 0},
        {"searched_share": 2},
        {"searched_share": math.nan},
    ],
)
def test_a_load_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"load|share"):
        plan(replace(LOAD, **change), Index.HNSW, BASIS)


def test_the_most_sensitive_number_comes_first() -> None:
    found = sensitivity(LOAD, Index.HNSW, BASIS, Prices())

    spans = [abs(each.doubled - each.halved) for each in found]
    assert spans == sorted(spans, reverse=True)
    assert len(found) == len(list(BASIS.known()))


def figures() -> dict[str, Any]:
    run = {
        "cpu_ms_per_chunk": {"chunk-contextualise": 2.0, "embed": 16.0},
        "cpu_ms_per_question": {"retrieve": 250.0},
        "answer_bytes": 9_000.0,
    }
    growth = {
        "pipeline": [
            {**run, "embed_workers": 1, "size": 1_000, "answer_bytes": 1.0},
            {**run, "embed_workers": 1, "size": 10_000},
            {**run, "embed_workers": 2, "size": 10_000, "answer_bytes": 2.0},
        ],
        "store": {
            "dim": 384,
            "points": [{"chunks": size, "lexical_cpu_ms": 1 + size / 100_000} for size in (1_000, 10_000, 100_000)],
            "row_bytes": 3_000.0,
            "distinct_terms_per_chunk": 50.0,
            "chunks_per_document": 60.0,
            "bytes_per_chunk": {"documents": 400.0, "chunks": 900.0, "contextual-chunks": 1_100.0},
        },
    }
    return {"measurements": {"growth": {"figures": growth}}}


def test_the_basis_takes_the_largest_run_with_one_worker() -> None:
    basis = basis_of(figures())

    assert basis.answer_bytes.value == 9_000
    assert basis.work_bytes.value == 2_000
    assert basis.lexical_cpu_ms_per_million.value == pytest.approx(10)


def test_without_storms_the_chunks_of_a_change_are_an_assumption() -> None:
    assert basis_of(figures()).embedded_per_change.origin is Origin.ASSUMED


def test_all_edits_of_storms_tell_how_many_chunks_a_change_touches() -> None:
    storms = [
        {"seconds": 10, "background": {"done_per_s": done, "embedded_per_edit": embedded}}
        for done, embedded in ((1.0, 5.0), (3.0, 9.0))
    ]
    idle = {"seconds": 900, "background": {}}
    found = figures()
    found["measurements"]["freshness"] = {"figures": {"recorded": True, "scenarios": [idle, *storms]}}

    basis = basis_of(found)

    assert basis.embedded_per_change == Known(
        8.0, "chunks per change", Origin.MEASURED, "freshness: about 40 recorded edits in storms"
    )


def test_a_worker_that_chunks_has_room_for_the_largest_document_that_it_may_parse() -> None:
    parsing = ParsingSettings()

    assert WORKER.gib * 1024 > parsing.processes * parsing.max_memory_mb + AT_REST_MB


@pytest.mark.parametrize(
    "found", [{}, [], {"measurements": {"query": {}}}, {"measurements": {"growth": {"figures": {}}}}]
)
def test_figures_without_growth_are_refused_by_name(
    found: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["cost", "--figures", str(path)])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert "figures.json: figures of growth are missing" in capsys.readouterr().err


def test_a_load_that_cannot_be_ends_the_command_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cost", "--chunks", "nan"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert "a load has at least one chunk" in capsys.readouterr().err
