"""The gate bites: what it lets pass, what it refuses, and what it says."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.evaluate.figures import FAILED, MRR, NDCG, RECALL_10
from freki.schemas import DocumentId
from freki.streams.evaluate.result import Answered, KeptRank, Run
from tests.quality.gate import MARGIN, RECORD, RunFigures, compare, contents_of, differences, figures_of

LEAVE, WASTE, STRANGER = DocumentId("leave"), DocumentId("waste"), DocumentId("stranger")
values = st.dictionaries(st.text("abc", min_size=1), st.floats(0, 1), min_size=1)


def answered(name: str, ndcg: float, language: str = "de") -> Answered:
    return Answered(
        question_id=name,
        text=f"What about {name}?",
        language=language,
        query_type="factual",
        figures={NDCG: ndcg, MRR: ndcg, RECALL_10: 1.0, FAILED: 0.0},
        ranking=tuple(KeptRank(each, 0.5, None) for each in (WASTE, STRANGER, LEAVE, STRANGER)),
        relevant={LEAVE: 3, DocumentId("gone"): None},
    )


def run(worth: Mapping[str, float]) -> Run:
    return Run(
        title="as set",
        answers=tuple(answered(name, ndcg) for name, ndcg in worth.items()),
        lower_bounds=(),
        remarks=(),
    )


def figures(worth: Mapping[str, float]) -> RunFigures:
    return figures_of(run(worth))


@given(worth=values)
def test_what_is_as_recorded_passes(worth: Mapping[str, float]) -> None:
    verdict = compare("set", figures(worth), run(worth))

    assert verdict.passed
    assert all(">" not in line for line in verdict.lines)


@given(before=values, data=st.data())
def test_a_set_fails_exactly_when_its_mean_falls_by_more_than_the_margin(
    before: Mapping[str, float], data: st.DataObject
) -> None:
    after = {name: data.draw(st.floats(0, 1), label=name) for name in before}

    verdict = compare("set", figures(before), run(after))

    assert verdict.passed == (figures(after).figures[NDCG] - figures(before).figures[NDCG] >= -MARGIN)


def test_a_drop_lists_the_questions_that_lost_the_worst_first() -> None:
    before, after = {"a": 1.0, "b": 0.9, "c": 0.2, "d": 1.0}, {"a": 0.6, "b": 0.1, "c": 0.3, "d": 1.0}

    verdict = compare("set", figures(before), run(after))

    assert verdict.lines == [
        f"set: {NDCG} 0.775 > 0.500, {MRR} 0.775 > 0.500, {RECALL_10} 1.000, {FAILED} 0.000",
        f"  {NDCG} by language: de 0.775 > 0.500",
        "  a drop of 0.275, more than 0.01",
        "  2 questions lost, 1 gained",
        "  0.900 > 0.100  b: What about b?",
        "      expected, with place: leave (3), gone (not found); found first: waste, stranger, leave",
        "  1.000 > 0.600  a: What about a?",
        "      expected, with place: leave (3), gone (not found); found first: waste, stranger, leave",
    ]


def test_a_long_list_is_cut_and_counted() -> None:
    worth = {f"{number:02}": 1.0 for number in range(40)}
    nothing = dict.fromkeys(worth, 0.0)

    verdict = compare("set", figures(worth), run(nothing))

    assert verdict.lines[-1] == "  and 15 more"


def test_a_gain_passes_and_says_how_to_hold_it() -> None:
    verdict = compare("set", figures({"a": 0.5}), run({"a": 0.6}))

    assert verdict.passed
    assert RECORD in verdict.lines[-1]


def test_languages_are_told_apart() -> None:
    mixed = replace(run({}), answers=(answered("a", 1.0), answered("b", 0.5, "en"), answered("c", 0.0, "en")))

    assert figures_of(mixed).languages == {"de": 1.0, "en": 0.25}


def test_a_set_is_another_after_any_change_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text("one")
    one = contents_of(tmp_path)
    (tmp_path / "queries.jsonl").write_text("two")
    two = contents_of(tmp_path)
    (tmp_path / "queries.jsonl").rename(tmp_path / "qrels.tsv")

    assert len({one, two, contents_of(tmp_path)}) == 3


@pytest.mark.parametrize("before", [{}, {"embedder": "old", "analyser": "same"}])
def test_what_the_figures_were_made_with_is_compared(before: Mapping[str, str]) -> None:
    told = differences(before, {"embedder": "new"})

    assert told == [f"embedder was {before.get('embedder', 'not recorded')}, is new"]
