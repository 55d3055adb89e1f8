"""What an option is set to: gains over sets, costs, the race, the choice and its worth."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from freki.operators.evaluate import (
    Choice,
    QuestionKey,
    TuningVerdict,
    choose,
    cost_of,
    cross_validate,
    document_frequencies,
    first_part,
    folds_of,
    gain_of,
    interval_over_sets,
    mean_of,
    mean_over_sets,
    shorten,
    survivors,
)
from freki.operators.evaluate.cost import saves
from freki.operators.evaluate.gain import standard_error

asked = st.builds(QuestionKey, st.sampled_from(["one", "two", "three"]), st.integers(0, 60).map(str))
differences = st.dictionaries(asked, st.floats(-1, 1, allow_nan=False), min_size=1, max_size=60)
milliseconds = st.lists(st.floats(1, 1000), min_size=1, max_size=40)


def questions(**counts: int) -> list[QuestionKey]:
    return [QuestionKey(name, str(number)) for name, count in counts.items() for number in range(count)]


def noisy(names: Sequence[QuestionKey], mean: float, *, seed: int, spread: float = 0.1) -> dict[QuestionKey, float]:
    """Make figures that differ between questions as well as between values."""
    hard = np.random.default_rng(1).uniform(0, 0.5, len(names))
    drawn = np.random.default_rng(seed).normal(mean, spread, len(names))
    return {name: float(at) for name, at in zip(names, hard + drawn, strict=True)}


def steady(**levels: float) -> dict[str, list[float]]:
    """Make times that differ between questions, and by a constant between values."""
    base = np.random.default_rng(2).uniform(50, 150, 40)
    return {value: [float(at + level) for at in base] for value, level in levels.items()}


def validated(
    scores: Mapping[str, Mapping[QuestionKey, float]],
    times: Mapping[str, Sequence[float]],
    *,
    present: str = "a",
    seed: int = 0,
) -> Choice:
    fold_of = folds_of(scores[present], folds=5, seed=seed)
    return cross_validate(scores, screened=scores, present=present, times=times, fold_of=fold_of, folds=5, seed=seed)


def test_a_large_set_does_not_decide_alone() -> None:
    values = {asked: float(asked.set_name == "large") for asked in questions(large=99, small=1)}

    assert mean_over_sets(values) == 0.5


def test_few_pairs_of_times_show_nothing_however_far_apart() -> None:
    assert not cost_of([10.0] * 5, [90.0] * 5).is_clear
    assert cost_of([10.0] * 6, [90.0] * 6).is_clear


@given(values=st.lists(st.floats(-1, 1, allow_nan=False), min_size=1, max_size=40))
def test_over_one_set_a_mean_is_the_mean_of_its_questions(values: list[float]) -> None:
    of_set = {QuestionKey("one", f"{place:02}"): value for place, value in enumerate(values)}

    assert asdict(interval_over_sets(of_set, seed=1)) == pytest.approx(asdict(mean_of(values, seed=1)))


@given(differences=differences, data=st.data())
def test_the_order_of_questions_changes_no_gain(differences: dict[QuestionKey, float], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(list(differences.items()))))

    assert gain_of(shuffled, seed=3) == gain_of(differences, seed=3)


@given(differences=differences)
def test_a_gain_lies_within_its_interval_unless_the_sets_hold_few_questions(
    differences: dict[QuestionKey, float],
) -> None:
    found = gain_of(differences, seed=1)

    assert min(differences.values()) - 1e-9 <= found.low <= found.high <= max(differences.values()) + 1e-9
    assert found.questions == len(differences)


def test_of_one_set_a_gain_is_a_mean_with_the_standard_error_of_the_textbook() -> None:
    values = noisy(questions(one=80), 0.02, seed=4)

    found = gain_of(values, seed=1)

    assert found.value == pytest.approx(np.mean(list(values.values())))
    assert standard_error(values) == pytest.approx(stats.sem(list(values.values())))
    assert found.high - found.low == pytest.approx(2 * 1.96 * standard_error(values), rel=0.1)


def test_questions_weigh_in_the_test_as_they_do_in_the_mean() -> None:
    # 40 small losses in one set, 5 large gains in another: the mean over sets is far above 0.
    values = {asked: 0.5 if asked.set_name == "few" else -0.01 for asked in questions(many=40, few=5)}

    assert gain_of(values, seed=1).p < 0.15
    assert gain_of(dict.fromkeys(values, -0.01), seed=1).p < 0.01


@given(times=milliseconds, shift=st.floats(-500, 500))
def test_what_is_slower_by_a_constant_costs_that_constant(times: list[float], shift: float) -> None:
    found = cost_of([time + shift for time in times], times)

    assert (found.difference_ms, found.low_ms, found.high_ms) == pytest.approx((shift, shift, shift), abs=1e-9)


@pytest.mark.parametrize("count", [1, 5, 6, 8, 20, 48, 2000])
def test_the_interval_of_a_median_is_that_of_the_sign_test(count: int) -> None:
    found = cost_of([float(place) for place in range(count)], [0.0] * count)

    outside = 2 * stats.binom.cdf(found.low_ms, count, 0.5)
    narrower = 2 * stats.binom.cdf(found.low_ms + 1, count, 0.5)
    assert outside <= 0.05 or found.low_ms == 0
    assert narrower > 0.05
    assert found.high_ms == count - 1 - found.low_ms


def test_times_that_do_not_pair_up_are_refused() -> None:
    with pytest.raises(ValueError, match="do not pair up"):
        cost_of([1.0], [])


def test_less_than_a_millisecond_is_no_saving() -> None:
    times = steady(slow=0, tick=-0.5, fast=-5)

    assert not saves(times["tick"], times["slow"])
    assert saves(times["fast"], times["slow"])
    assert not saves([1.0, 200.0, 1.0], [10.0, 10.0, 10.0])


@given(counts=st.lists(st.integers(1, 40), min_size=1, max_size=3), folds=st.integers(2, 7), seed=st.integers(0, 9))
def test_folds_are_even_within_every_set(counts: list[int], folds: int, seed: int) -> None:
    names = questions(**{f"set{place}": count for place, count in enumerate(counts)})

    found = folds_of(names, folds=folds, seed=seed)

    assert found == folds_of(reversed(names), folds=folds, seed=seed)
    for place, count in enumerate(counts):
        sizes = [
            sum(fold == at and name.set_name == f"set{place}" for name, fold in found.items()) for at in range(folds)
        ]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == count


def test_the_first_part_is_a_share_of_each_set_but_no_less_than_asked_for() -> None:
    found = first_part(questions(large=90, small=10, tiny=3), share=1 / 3, least=5, seed=0)

    assert [sum(name.set_name == part for name in found) for part in ("large", "small", "tiny")] == [30, 5, 3]


def test_only_what_is_clearly_worse_leaves_the_race() -> None:
    names = questions(one=30, two=30)
    screened = {
        "a": noisy(names, 0.50, seed=1),
        "bad": noisy(names, 0.20, seed=2),
        "close": noisy(names, 0.49, seed=3),
    }
    fold_of = folds_of(names, folds=5, seed=0)

    assert survivors(screened, present="a", fold_of=fold_of, folds=5) == ["a", "close"]
    assert survivors(screened, present="bad", fold_of=fold_of, folds=5) == ["a", "bad", "close"]


def test_few_questions_judge_nothing_out_of_the_race() -> None:
    names = questions(one=10)
    screened = {"a": dict.fromkeys(names, 1.0), "bad": dict.fromkeys(names, 0.0)}

    assert survivors(screened, present="a", fold_of=folds_of(names, folds=2, seed=0), folds=2) == ["a", "bad"]


def test_the_best_is_chosen_where_it_is_clearly_better() -> None:
    names = questions(one=50, two=50)
    scores = {"a": noisy(names, 0.4, seed=1), "b": noisy(names, 0.5, seed=2), "c": noisy(names, 0.3, seed=3)}

    assert choose(scores, present="a", times=steady(a=0, b=30, c=0)) == "b"


def test_among_equals_the_faster_one_is_chosen_else_the_present_one() -> None:
    names = questions(one=50, two=50)
    scores = {value: noisy(names, 0.5, seed=seed) for seed, value in enumerate("abc")}
    for each in scores.values():
        shift = 0.5 - mean_over_sets(each)
        each.update({name: value + shift for name, value in each.items()})

    assert choose(scores, present="a", times=steady(a=0, b=-20, c=-5)) == "b"
    assert choose(scores, present="a", times=steady(a=0, b=0.2, c=-0.2)) == "a"


@given(seed=st.integers(0, 50), levels=st.lists(st.floats(0, 0.9), min_size=2, max_size=4))
def test_a_option_without_effect_keeps_the_present_value(seed: int, levels: list[float]) -> None:
    same = noisy(questions(one=12, two=9), levels[0], seed=seed)
    scores = dict.fromkeys("abcd"[: len(levels)], same)
    times = steady(**dict(zip(scores, levels, strict=True)))

    found = validated(scores, times, present="b", seed=seed)

    assert (found.value, found.by_fold, found.verdict) == ("b", ("b",) * 5, TuningVerdict.AS_GOOD)
    assert (found.gain.value, found.gain.p) == (0.0, 1.0)


@given(data=st.data(), seed=st.integers(0, 9))
def test_the_order_of_questions_changes_no_choice(data: st.DataObject, seed: int) -> None:
    names = questions(one=12, two=15)
    scores = {value: noisy(names, 0.5, seed=place) for place, value in enumerate("abc")}
    shuffled = {value: dict(data.draw(st.permutations(list(each.items())))) for value, each in scores.items()}
    times = steady(a=0, b=2, c=-2)

    assert validated(shuffled, times, seed=seed) == validated(scores, times, seed=seed)


def test_a_better_value_moves_the_option_and_its_worth_is_measured_where_it_was_not_chosen() -> None:
    names = questions(one=60, two=40)
    scores = {"a": noisy(names, 0.4, seed=1), "b": noisy(names, 0.5, seed=2)}

    found = validated(scores, steady(a=0, b=10))

    assert (found.value, found.by_fold, found.verdict) == ("b", ("b",) * 5, TuningVerdict.BETTER)
    assert found.gain.value == pytest.approx(mean_over_sets(scores["b"]) - mean_over_sets(scores["a"]))


def test_each_fold_is_scored_by_what_the_others_chose() -> None:
    # Each value answers the questions of its own fold only: whoever sees them is misled.
    names = questions(one=50)
    fold_of = folds_of(names, folds=5, seed=0)
    scores = {str(fold): {name: float(fold_of[name] == fold) for name in names} for fold in range(5)}

    found = cross_validate(
        scores,
        screened=scores,
        present="0",
        times=steady(**dict.fromkeys(scores, 0.0)),
        fold_of=fold_of,
        folds=5,
        seed=0,
    )

    assert all(value != str(fold) for fold, value in enumerate(found.by_fold))
    assert found.gain.value <= 0
    assert found.verdict is TuningVerdict.AS_GOOD


def test_luck_among_many_values_moves_nothing() -> None:
    names = questions(one=40, two=40)
    moved = 0
    for trial in range(20):
        values = [f"v{place}" for place in range(8)]
        scores = {value: noisy(names, 0.5, seed=100 * trial + place) for place, value in enumerate(values)}
        found = validated(scores, steady(**dict.fromkeys(values, 0.0)), present="v0")
        moved += found.moves

    assert moved <= 3


def test_a_faster_value_moves_the_option_only_if_it_surely_loses_little() -> None:
    few, many = questions(one=20), questions(one=900, two=900)
    times = steady(a=0, b=-20)

    unsure = validated({"a": noisy(few, 0.5, seed=1), "b": noisy(few, 0.5, seed=5)}, times)
    sure = validated({"a": noisy(many, 0.5, seed=1), "b": noisy(many, 0.502, seed=5)}, times)

    assert (unsure.value, unsure.verdict) == ("b", TuningVerdict.UNPROVEN)
    assert sure.gain.low > -0.01
    assert sure.value == "b"
    assert sure.moves


def test_fewer_questions_than_folds_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fill 5 folds"):
        validated({"a": dict.fromkeys(questions(one=4), 1.0)}, {"a": [1.0]})


def test_a_question_is_shortened_to_its_rarest_words_in_their_order() -> None:
    corpus = ["Der Urlaub ist bei der Leitung zu beantragen", "Die Leitung und die Bahn", "Der Antrag", "Der Urlaub"]
    frequencies = document_frequencies(corpus)

    assert shorten("Wer von der Leitung muss den Urlaub beantragen?", frequencies) == "Leitung Urlaub beantragen"
    assert shorten("beantragen, URLAUB", frequencies, words=1) == "beantragen"
    assert shorten("Weshalb denn?", frequencies) == ""
    with pytest.raises(ValueError, match="at least 1"):
        shorten("Urlaub", frequencies, words=0)


@given(text=st.text(max_size=80), corpus=st.lists(st.text(max_size=80), max_size=5), words=st.integers(1, 4))
def test_a_shortened_question_holds_no_more_words_and_none_of_its_own_making(
    text: str, corpus: list[str], words: int
) -> None:
    found = shorten(text, document_frequencies([*corpus, text]), words=words).split()

    assert len(found) <= words
    assert all(word in text for word in found)
