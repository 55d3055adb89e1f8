"""Each step of retrieval is left out, one at a time; what that loses and saves, and what is said of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from rich.console import Console

from freki.cli.evaluate.reports.ablation import write_report
from freki.cli.evaluate.show_ablation import show_overall, show_set, verdict
from freki.operators.errors import InvalidQuery
from freki.operators.evaluate import QuestionKey
from freki.schemas import ContextQuery, Fusion, QueryId, RerankerChoice, TenantId, Timestamp, Widening
from freki.schemas.query_options import QueryOptions
from freki.streams.evaluate.ablated import AblatedSet, Ablation, Measured, measured
from freki.streams.evaluate.ablation import AS_SET, AblationRow, rows
from freki.streams.evaluate.configuration import parse_configuration
from freki.streams.evaluate.timing import time_in_turn
from tests.unit.questions import OPTIONS

QUERY = ContextQuery(query_id=QueryId("q"), tenant=TenantId("t"), text="Frist", asked_at=Timestamp(0))
OFF: Mapping[str, Callable[[QueryOptions], bool]] = {
    "reranking": lambda options: options.reranker is RerankerChoice.NONE,
    "blending": lambda options: options.blend_for(exact=True) == options.blend_for(exact=False) == 0,
    "diversity": lambda options: options.mmr_lambda == 1,
    "further searches": lambda options: not options.widen,
    "exact terms": lambda options: not options.exact,
    "types by examples": lambda options: not options.prototypes,
    "folding": lambda options: options.fold_at == 1,
    "limit per document": lambda options: options.per_document == 0,
    "expansion": lambda options: options.expand_documents == 0,
    "judgements": lambda options: options.feedback == 0,
    "sections": lambda options: not options.parents,
    "neighbours": lambda options: options.neighbours == 0,
}

settings = st.builds(
    lambda **turned: replace(OPTIONS, **turned),
    fusion=st.sampled_from(Fusion),
    reranker=st.sampled_from(RerankerChoice),
    rerank_candidates=st.sampled_from([0, 16]),
    rerank_blend=st.sampled_from([None, 0.0, 2.0]),
    usual_blend=st.sampled_from([0.0, 1.0]),
    exact_blend=st.sampled_from([0.0, 4.0]),
    mmr_lambda=st.sampled_from([0.7, 1.0]),
    widen=st.lists(st.sampled_from(Widening), unique=True, max_size=3).map(tuple),
    exact=st.booleans(),
    prototypes=st.booleans(),
    fold_at=st.sampled_from([0.9, 1.0]),
    per_document=st.sampled_from([0, 2]),
    expand_documents=st.sampled_from([0, 3]),
    feedback=st.sampled_from([0.0, 0.2]),
    parents=st.booleans(),
    neighbours=st.sampled_from([0, 1]),
)


def turned(row: AblationRow, options: QueryOptions) -> QueryOptions:
    return options.with_overrides(row.configuration.applied(QUERY))


@given(options=settings, contexts=st.booleans())
def test_every_row_but_the_first_asks_for_something_else_than_all_others(options: QueryOptions, contexts: bool) -> None:  # noqa: FBT001
    found = rows(options, contexts=contexts)

    assert found[0].title == AS_SET
    assert turned(found[0], options) == options
    asked = [(turned(row, options), row.configuration.overrides.get("kind")) for row in found]
    assert all(each not in asked[:place] for place, each in enumerate(asked))
    assert len({row.title for row in found}) == len(found)


@given(options=settings, contexts=st.booleans())
def test_a_step_that_is_on_is_left_out_once_and_that_alone(options: QueryOptions, contexts: bool) -> None:  # noqa: FBT001
    single = [row for row in rows(options, contexts=contexts) if row.step]

    for row in single:
        assert not OFF[row.step](options)
        assert OFF[row.step](turned(row, options))
        assert len(row.configuration.overrides) == 1
    assert {"sections", "neighbours"}.isdisjoint(row.step for row in single) or contexts


@given(options=settings)
def test_searches_alone_have_every_step_off_and_nothing_but_what_stands_around_hits(options: QueryOptions) -> None:
    alone = [row for row in rows(options) if row.title.endswith("search alone") or row.title == "BM25 alone"]

    for row in alone:
        left = turned(row, options)
        assert all(
            is_off(left)
            for step, is_off in OFF.items()
            if step not in ("reranking", "blending", "sections", "neighbours")
        )
        assert left.reranker is RerankerChoice.NONE or left.rerank_candidates == 0
        assert (left.parents, left.neighbours) == (options.parents, options.neighbours)


def test_the_ends_of_the_scale_follow_the_steps_and_what_the_user_asks_comes_last() -> None:
    titles = [row.title for row in rows(replace(OPTIONS, mmr_lambda=0.7), ["fusion=zscore", "mmr_lambda=1"])]

    assert titles == [
        "as set",
        "without reranking",
        "without diversity",
        "without exact terms",
        "without types by examples",
        "hybrid search alone",
        "dense search alone",
        "BM25 alone",
        "all on",
        "fusion=zscore",
    ]


@pytest.mark.parametrize(
    ("also", "expected"), [("alfa=1", "with a name of"), ("fusion=weighted", "equals the settings")]
)
def test_a_row_that_cannot_be_or_turns_nothing_is_refused(also: str, expected: str) -> None:
    with pytest.raises(InvalidQuery, match=expected):
        rows(OPTIONS, [also])


async def test_every_question_is_asked_of_every_value_in_turn_after_a_round_that_warms_up() -> None:
    asked: list[str] = []
    now = iter(range(0, 10**12, 1_000_000))

    async def ask(question: int, value: str) -> None:
        asked.append(f"{question}{value}")

    times = await time_in_turn([1, 2], ["a", "b"], ask, clock_ns=lambda: next(now), advance=lambda: None)

    assert asked == ["1a", "1b", "1b", "1a", "2a", "2b"]
    assert times == {"a": {1: 1.0, 2: 1.0}, "b": {1: 1.0, 2: 1.0}}


TABLE = [
    AblationRow(title=title, step=step, configuration=parse_configuration(text))
    for title, step, text in (
        ("as set", "", ""),
        ("without reranking", "reranking", "reranker=none"),
        ("without diversity", "diversity", "mmr_lambda=1"),
        ("without further searches", "further searches", "widen=none"),
        ("all on", "", "widen_when=always"),
    )
]
NDCG = {
    "as set": 0.8,
    "without reranking": 0.5,
    "without diversity": 0.9,
    "without further searches": 0.8,
    "all on": 0.8,
}


def of_sets(*names: str) -> tuple[Measured, ...]:
    asked = [QuestionKey(name, str(number)) for name in names for number in range(20)]
    answers = {
        title: {each: {"nDCG@10": value, "MRR": value, "Recall@10": 1.0, "failed@20": 0.0} for each in asked}
        for title, value in NDCG.items()
    }
    times = {
        row.title: {
            each: 20.0 if row.step == "reranking" else 200.0 + int(each.question_id) % 2 * place for each in asked
        }
        for place, row in enumerate(TABLE)
    }
    return measured(TABLE, answers, times)


def ablation(*names: str) -> Ablation:
    return Ablation(
        format="freki ablation 1",
        made_at="2026-11-22T03:15:56+00:00",
        took_s=90.0,
        made_with={"machine": "<one> | two"},
        sets=tuple(
            AblatedSet(
                name=name,
                documents=4,
                questions=20,
                timed=20,
                notes=("a note",),
                rows=of_sets(name),
                remarks={"as set": ("skipped in 2 of 20 answers",), "all on": ("skipped in 2 of 20 answers",)},
            )
            for name in names
        ),
        overall=of_sets(*names) if len(names) > 1 else (),
    )


def test_a_row_is_put_beside_what_is_set() -> None:
    first, reranking, *_ = of_sets("one", "two")

    assert (first.differences, first.cost.p50_ms) == ({}, 200.0)
    assert reranking.differences["nDCG@10"].value == pytest.approx(-0.3)
    assert reranking.cost.difference_ms == -180.0
    assert (reranking.losses, reranking.gains) == (["nDCG@10"], [])


def test_a_step_is_only_said_to_gain_where_something_is_worse_without_it() -> None:
    said = verdict(of_sets("one"))

    assert said == (
        "Of 3 steps 1 is shown to gain: reranking (nDCG@10 +0.300, p < 0.001; 180 ms); "
        "not shown to gain: further searches (nDCG@10 +0.000, p = 1.000; no measurable time); "
        "better left out: diversity (nDCG@10 -0.100, p < 0.001; no measurable time)"
    )


def test_the_terminal_shows_whole_tables_of_each_set_and_of_their_mean() -> None:
    found = ablation("one", "two")
    console = Console(file=StringIO(), width=80)

    for one in found.sets:
        show_set(console, one)
    show_overall(console, found)

    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in printed
    assert "Mean of 2 sets" in printed
    assert "skipped in 2 of 20 answers (as set, all on)" in printed
    assert "without reranking: reranker=none" in printed


def test_a_narrow_terminal_shows_figures_of_contexts_with_the_titles_of_the_rows() -> None:
    (one,) = ablation("one").sets
    console = Console(file=StringIO(), width=80)

    rows_with_facts = [
        replace(row, means={**row.means, "spans quoted": row.means["MRR"], "facts found": row.means["MRR"]})
        for row in one.rows
    ]
    show_set(console, replace(one, rows=tuple(rows_with_facts)))

    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in printed
    assert "as set" in printed
    assert "quoted" in printed


def test_the_report_is_markdown_with_whole_tables() -> None:
    page = write_report(ablation("one", "two"))

    tables = [block.splitlines() for block in page.split("\n\n") if block.startswith("|")]
    assert len(tables) == 5
    assert all(len({row.count("|") for row in each}) == 1 for each in tables)
    assert "| without reranking | 0.500 | 0.500 | 1.000 | 0.000 | -0.300" in page


def test_an_ablation_survives_its_file() -> None:
    files = TypeAdapter(Ablation)
    found = ablation("one")

    assert files.validate_json(files.dump_json(found)) == found
