import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models.pace import Pace
from freki.infra.models.packing import pack

lengths = st.lists(st.integers(0, 600), max_size=60)
budgets = st.integers(1, 4096)


@given(lengths=lengths, budget=budgets)
def test_every_text_goes_into_exactly_one_batch(lengths: list[int], budget: int) -> None:
    batches = list(pack(lengths, budget=budget))

    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@given(lengths=lengths, budget=budgets)
def test_a_padded_batch_stays_within_the_budget_unless_one_text_is_over_it(lengths: list[int], budget: int) -> None:
    for batch in pack(lengths, budget=budget):
        assert len(batch) == 1 or max(lengths[index] for index in batch) * len(batch) <= budget


@given(lengths=lengths, budget=budgets)
def test_batches_go_from_long_to_short(lengths: list[int], budget: int) -> None:
    order = [lengths[index] for batch in pack(lengths, budget=budget) for index in batch]

    assert order == sorted(lengths, reverse=True)


def test_a_pace_is_unknown_before_the_first_measurement() -> None:
    assert Pace().tokens_per_s == 0


@given(rate=st.floats(1, 1e5), batches=st.lists(st.integers(1, 10_000), min_size=1, max_size=20))
def test_a_steady_pace_is_found_whatever_the_batches(rate: float, batches: list[int]) -> None:
    pace = Pace()

    for tokens in batches:
        pace.learn(tokens, tokens / rate)

    assert pace.tokens_per_s == pytest.approx(rate)


@given(tokens=st.integers(1, 100))
def test_a_short_text_says_nothing_about_the_pace_once_it_is_known(tokens: int) -> None:
    pace = Pace()
    pace.learn(8192, 1.0)

    pace.learn(tokens, tokens / 100)

    assert pace.tokens_per_s == pytest.approx(8192)


def test_a_machine_that_slows_down_is_noticed_after_a_few_batches() -> None:
    pace = Pace()
    pace.learn(100_000, 1.0)

    for _ in range(8):
        pace.learn(8192, 8.192)

    assert pace.tokens_per_s == pytest.approx(1000, rel=0.05)
