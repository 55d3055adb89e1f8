"""Figures against hand-computed ones, published examples and other libraries."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from freki.operators.evaluate import (
    FIGURES,
    Mean,
    compare,
    false_positives,
    judge_rankings,
    mean_of,
    most_changed,
    place_in_sections,
    rank_documents,
    share_found,
    summarise,
)
from freki.operators.evaluate.compare import randomisation_test, t_test
from freki.schemas import DocumentId
from tests.unit.evaluations import hit

# Student 1908, additional hours of sleep: the second drug less the first.
SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
# Darwin's maize, crossed less self-fertilised, in eighths of an inch: Fisher 1935, section 21.
MAIZE = [49.0, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]

documents = st.integers(0, 150).map(lambda number: DocumentId(f"d{number}"))
rankings = st.lists(documents, unique=True, max_size=120)
judgements = st.dictionaries(documents, st.integers(0, 4), min_size=1, max_size=30).filter(
    lambda graded: any(grade > 0 for grade in graded.values())
)
shares = st.floats(0, 1, allow_nan=False)
differences = st.lists(st.floats(-1, 1, allow_nan=False), min_size=1, max_size=40)


def names(text: str) -> list[DocumentId]:
    return [DocumentId(name) for name in text.split()]


def judged(ranking: Sequence[DocumentId], graded: Mapping[DocumentId, int]) -> dict[str, float]:
    return judge_rankings({"q": ranking}, {"q": graded})["q"]


def by_the_book(ranking: Sequence[DocumentId], graded: Mapping[DocumentId, int]) -> dict[str, float]:
    """Compute the figures from their definitions."""
    gains = [max(graded.get(name, 0), 0) for name in ranking]
    ideal = sorted((max(grade, 0) for grade in graded.values()), reverse=True)
    places = [place for place, gain in enumerate(gains, start=1) if gain]
    relevant = sum(grade > 0 for grade in graded.values())

    def dcg(values: Sequence[int]) -> float:
        return sum(value / math.log2(place + 1) for place, value in enumerate(values[:10], start=1))

    return {
        "nDCG@10": dcg(gains) / dcg(ideal),
        "MRR": 1 / places[0] if places else 0.0,
        "Recall@10": sum(place <= 10 for place in places) / relevant,
        "Recall@100": sum(place <= 100 for place in places) / relevant,
        "failed@20": float(not any(place <= 20 for place in places)),
    }


def test_figures_are_those_computed_by_hand() -> None:
    graded = {DocumentId("a"): 3, DocumentId("b"): 2, DocumentId("c"): 1, DocumentId("z"): 0}

    found = judged(names("b z a"), graded)

    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert found == pytest.approx(
        {"nDCG@10": (2 + 3 / 2) / ideal, "MRR": 1.0, "Recall@10": 2 / 3, "Recall@100": 2 / 3, "failed@20": 0.0}
    )


@pytest.mark.parametrize(("before", "failed"), [(19, 0.0), (20, 1.0)])
def test_a_question_failed_if_its_document_is_not_among_the_first_twenty(before: int, failed: float) -> None:
    ranking = [*(DocumentId(f"other{number}") for number in range(before)), DocumentId("right")]

    found = judged(ranking, {DocumentId("right"): 1})

    assert found["failed@20"] == failed
    assert found["MRR"] == pytest.approx(1 / (before + 1))


@given(ranking=rankings, graded=judgements)
def test_figures_are_those_of_the_definitions(ranking: list[DocumentId], graded: dict[DocumentId, int]) -> None:
    assert judged(ranking, graded) == pytest.approx(by_the_book(ranking, graded), abs=1e-6)


@given(ranking=rankings, graded=judgements)
def test_figures_lie_between_0_and_1(ranking: list[DocumentId], graded: dict[DocumentId, int]) -> None:
    assert all(0 <= value <= 1 for value in judged(ranking, graded).values())


@given(ranking=rankings, graded=judgements, data=st.data())
def test_names_of_documents_do_not_matter(
    ranking: list[DocumentId], graded: dict[DocumentId, int], data: st.DataObject
) -> None:
    old = sorted({*ranking, *graded})
    renamed = dict(zip(old, map(DocumentId, data.draw(st.permutations(old))), strict=True))

    found = judged([renamed[name] for name in ranking], {renamed[name]: grade for name, grade in graded.items()})

    assert found == judged(ranking, graded)


@given(graded=st.dictionaries(documents, st.integers(1, 4), min_size=1, max_size=10), rest=rankings)
def test_a_perfect_ranking_is_1_in_everything(graded: dict[DocumentId, int], rest: list[DocumentId]) -> None:
    best = sorted(graded, key=lambda name: -graded[name])

    found = judged([*best, *(name for name in rest if name not in graded)], graded)

    assert found == pytest.approx({"nDCG@10": 1, "MRR": 1, "Recall@10": 1, "Recall@100": 1, "failed@20": 0}, abs=1e-6)


def test_a_question_without_an_answer_gets_the_worst_figures_and_one_without_relevance_none() -> None:
    graded = {"missing": {DocumentId("a"): 1}, "empty": {DocumentId("a"): 1}, "hopeless": {DocumentId("a"): 0}}

    found = judge_rankings({"empty": [], "hopeless": names("a")}, graded)

    worst = {"nDCG@10": 0.0, "MRR": 0.0, "Recall@10": 0.0, "Recall@100": 0.0, "failed@20": 1.0}
    assert found == {"missing": worst, "empty": worst}


def test_a_document_stands_where_its_best_chunk_does() -> None:
    hits = [hit(1, "b", 0.9), hit(2, "a", 0.7), hit(3, "b", 0.8), hit(4, "c", 0.1)]

    ranking = rank_documents(hits)

    assert [(each.document_id, each.score) for each in ranking] == [("b", 0.9), ("a", 0.7), ("c", 0.1)]


def test_false_positives_are_hits_above_the_threshold_whose_document_is_not_relevant() -> None:
    scored = [hit(1, "right", 0.9), hit(2, "wrong", 0.8), hit(3, "unjudged", 0.5), hit(4, "wrong", 0.4)]
    unscored = replace(hit(5, "wrong", 0.9), rerank_score=None)
    graded = {DocumentId("right"): 2, DocumentId("wrong"): 0}

    assert false_positives([*scored, unscored], graded, threshold=0.5) == pytest.approx(2 / 3)
    assert false_positives(scored, graded, threshold=0.95) is None


def test_texts_are_found_whatever_their_case_and_white_space() -> None:
    context = "Der  Vermieter hat die Mietsache\nin einem GEEIGNETEN Zustand zu überlassen. STRASSE 5"

    assert share_found(["die mietsache in einem", "Straße 5", "der Mieter"], context) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "stored",
    ["§\u00a03 Urlaubs\u00adanspruch für Ältere", unicodedata.normalize("NFD", "§ 3 Urlaubs\u200banspruch für Ältere")],
)
def test_what_is_expected_is_found_as_a_person_types_it(stored: str) -> None:
    typed = "§ 3 Urlaubsanspruch für Ältere"
    inside = [replace(hit(1, "a", 0.5), heading_path=(stored,))]

    assert share_found([typed], f"Siehe {stored}.") == 1.0
    assert share_found([stored], f"Siehe {typed}.") == 1.0
    assert place_in_sections(inside, {DocumentId("a"): [typed]}) == 1


def test_a_hit_counts_in_the_section_that_is_expected_and_in_its_document() -> None:
    headings = [("bgb", "§ 57"), ("hgb", "§ 5 Kaufmann"), ("bgb", "§ 5 Stammkapital"), ("bgb", "§ 5")]
    hits = [
        replace(hit(rank, name, 0.5), heading_path=("Teil 1", heading)) for rank, (name, heading) in enumerate(headings)
    ]

    assert place_in_sections(hits, {DocumentId("bgb"): ["§ 5"]}) == 3
    assert place_in_sections(hits, {DocumentId("bgb"): ["§ 1", "Teil 1"]}) == 1
    assert place_in_sections(hits, {DocumentId("bgb"): ["§ 6"]}) is None


@given(text=st.text(min_size=1), before=st.text(), after=st.text())
def test_what_a_context_quotes_is_found(text: str, before: str, after: str) -> None:
    assert share_found([text], f"{before} {text} {after}") == 1.0


@given(values=st.lists(shares, min_size=1, max_size=50))
def test_a_mean_lies_within_its_interval_and_that_within_the_values(values: list[float]) -> None:
    found = mean_of(values, seed=1)

    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
    assert found.value == pytest.approx(sum(values) / len(values))
    assert found == mean_of(values, seed=1)


def test_the_interval_of_many_values_is_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(5).uniform(size=3000).tolist()

    found = mean_of(values, seed=1)

    margin = 1.96 * np.std(values) / math.sqrt(len(values))
    assert (found.low, found.high) == pytest.approx((found.value - margin, found.value + margin), abs=margin / 10)


def test_a_mean_counts_only_the_questions_that_have_the_figure() -> None:
    found = summarise([{"MRR": 1.0, "facts found": 0.5}, {"MRR": 0.5}], seed=1)

    assert [(name, mean.value, mean.questions) for name, mean in found.items()] == [
        ("MRR", 0.75, 2),
        ("facts found", 0.5, 1),
    ]


def test_the_t_test_gives_the_published_value() -> None:
    assert t_test(SLEEP) == pytest.approx(0.00283, abs=0.00001)


def test_the_randomisation_test_gives_the_published_value() -> None:
    assert randomisation_test(MAIZE, seed=1) == pytest.approx(2 * 863 / 2**15, abs=0.007)


@given(values=differences)
def test_the_t_test_agrees_with_scipy(values: list[float]) -> None:
    if len(values) < 2 or np.ptp(values) < 1e-6:
        return
    assert t_test(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=1e-6)


@given(values=st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=8))
def test_the_randomisation_test_of_few_differences_counts_every_pattern_of_signs(values: list[float]) -> None:
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in product((-1, 1), repeat=len(values))
    ]

    expected = sum(each >= abs(sum(values)) - 1e-9 for each in sums) / len(sums)

    assert randomisation_test(values, seed=1) == pytest.approx(expected)


@given(values=differences)
def test_neither_test_cares_which_configuration_comes_first(values: list[float]) -> None:
    turned = [-value for value in values]

    assert t_test(values) == pytest.approx(t_test(turned))
    assert randomisation_test(values, seed=3) == pytest.approx(randomisation_test(turned, seed=3), abs=0.02)


@given(values=differences)
def test_p_values_lie_between_0_and_1(values: list[float]) -> None:
    assert 0 <= t_test(values) <= 1
    assert 0 < randomisation_test(values, seed=3) <= 1


def test_equal_answers_are_no_difference() -> None:
    figures = {str(number): {"MRR": number / 30} for number in range(30)}

    found = compare(figures, figures, seed=1)["MRR"]

    assert (found.difference.value, found.p_randomisation, found.p_t) == (0, 1, 1)
    assert (found.better, found.same, found.worse) == (0, 30, 0)


def test_less_is_better_where_the_figure_says_so() -> None:
    first = {"1": {"failed@20": 1.0}, "2": {"failed@20": 1.0}, "3": {"failed@20": 0.0}}
    second = {"1": {"failed@20": 0.0}, "2": {"failed@20": 1.0}, "3": {"failed@20": 0.0}}

    found = compare(first, second, seed=1)["failed@20"]

    assert found.difference.value == pytest.approx(-1 / 3)
    assert (found.better, found.same, found.worse) == (1, 2, 0)


def test_only_questions_that_both_were_asked_are_compared() -> None:
    found = compare({"1": {"MRR": 1.0}, "2": {"MRR": 0.0}}, {"2": {"MRR": 0.5}, "3": {"MRR": 0.0}}, seed=1)

    assert found["MRR"].difference == Mean(value=0.5, low=0.5, high=0.5, questions=1)
    assert compare({"1": {"MRR": 1.0}}, {"2": {"MRR": 1.0}}, seed=1) == {}


def test_the_largest_changes_come_first_and_the_first_figure_counts_most() -> None:
    first = {
        "same": {"nDCG@10": 0.5, "failed@20": 0.0},
        "fewer failures": {"nDCG@10": 0.5, "failed@20": 1.0},
        "slightly worse": {"nDCG@10": 0.5, "failed@20": 0.0},
        "much better": {"nDCG@10": 0.0, "failed@20": 1.0},
    }
    second = {
        "same": {"nDCG@10": 0.5, "failed@20": 0.0},
        "fewer failures": {"nDCG@10": 0.5, "failed@20": 0.0},
        "slightly worse": {"nDCG@10": 0.25, "failed@20": 0.0},
        "much better": {"nDCG@10": 1.0, "failed@20": 0.0},
    }

    found = most_changed(first, second, limit=10)

    assert found == [
        ("much better", "nDCG@10", 1.0),
        ("slightly worse", "nDCG@10", -0.25),
        ("fewer failures", "failed@20", 1.0),
    ]
    assert most_changed(first, second, limit=1) == found[:1]


def test_every_figure_says_what_it_means() -> None:
    assert all(figure.meaning for figure in FIGURES)
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
