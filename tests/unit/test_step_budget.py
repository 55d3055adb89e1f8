import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.step_budget import OptionalStep, affordable

amounts = st.floats(0, 100, allow_nan=False)
steps = st.lists(
    st.builds(OptionalStep, st.text("abcdefgh", min_size=1, max_size=3), amounts, amounts),
    unique_by=lambda step: step[0],
)


def test_the_step_with_more_worth_for_its_time_comes_first() -> None:
    offered = [
        OptionalStep("rerank", 0.03, 0.2),
        OptionalStep("augment", 0.02, 0.01),
        OptionalStep("widen", 0.01, 0.05),
    ]

    assert affordable(offered, budget_s=0.07) == {"augment", "widen"}
    assert affordable(offered, budget_s=0.03) == {"augment"}
    assert affordable(offered, budget_s=0.3) == {"augment", "widen", "rerank"}
    assert affordable(offered, budget_s=0.0) == frozenset()


def test_what_was_never_timed_is_tried_and_what_is_worth_nothing_is_not() -> None:
    assert affordable([OptionalStep("new", 0.1, 0.0), OptionalStep("idle", 0.0, 0.0)], budget_s=-1.0) == {"new"}


@given(offered=steps, budget_s=st.floats(-10, 200, allow_nan=False), data=st.data())
def test_what_is_taken_fits_whatever_the_order(
    offered: list[OptionalStep], budget_s: float, data: st.DataObject
) -> None:
    taken = affordable(offered, budget_s=budget_s)

    spent = math.fsum(step.seconds for step in offered if step.name in taken)
    assert spent <= max(0.0, budget_s) + 1e-9
    assert taken == affordable(data.draw(st.permutations(offered)), budget_s=budget_s)


@given(offered=steps, budget_s=st.floats(0, 200, allow_nan=False))
def test_nothing_that_still_fits_is_left_out(offered: list[OptionalStep], budget_s: float) -> None:
    taken = affordable(offered, budget_s=budget_s)

    left = budget_s - math.fsum(step.seconds for step in offered if step.name in taken)
    assert all(step.name in taken or step.worth == 0 or step.seconds > left - 1e-9 for step in offered)


@pytest.mark.parametrize(
    "step",
    [
        OptionalStep("a", -1, 1),
        OptionalStep("a", 1, -1),
        OptionalStep("a", math.nan, 1),
        OptionalStep("a", 1, math.inf),
    ],
)
def test_worth_and_time_are_numbers_that_can_be_spent(step: OptionalStep) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        affordable([step], budget_s=1)
