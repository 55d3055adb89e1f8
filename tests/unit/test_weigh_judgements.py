import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.weigh_judgements import WeightedVerdict, likeness, weigh_judgements
from freki.schemas import Verdict

some = st.builds(
    WeightedVerdict,
    judge=st.sampled_from("abc"),
    target=st.sampled_from("xyz"),
    verdict=st.sampled_from(Verdict),
    likeness=st.floats(0, 1),
    age=st.floats(0, 50),
)


def said(verdict: Verdict = Verdict.UP, *, judge: str = "a", alike: float = 1.0, age: float = 0.0) -> WeightedVerdict:
    return WeightedVerdict(judge=judge, target="x", verdict=verdict, likeness=alike, age=age)


@given(judgements=st.lists(some), data=st.data())
def test_boosts_are_below_1_and_do_not_depend_on_the_order_of_judgements(
    judgements: list[WeightedVerdict], data: st.DataObject
) -> None:
    boosts = weigh_judgements(judgements)

    assert all(-1 < boost < 1 for boost in boosts.values())
    assert weigh_judgements(data.draw(st.permutations(judgements))) == boosts


@given(judgements=st.lists(some), target=st.sampled_from("xyz"))
def test_a_target_is_moved_by_what_was_said_of_it_alone(judgements: list[WeightedVerdict], target: str) -> None:
    alone = weigh_judgements([each for each in judgements if each.target == target])

    assert weigh_judgements(judgements).get(target) == alone.get(target)


@given(others=st.lists(some), flood=st.integers(1, 10_000), verdict=st.sampled_from(Verdict))
def test_a_judge_who_judges_for_ever_moves_no_more_than_one_thumb(
    others: list[WeightedVerdict], flood: int, verdict: Verdict
) -> None:
    others = [each for each in others if each.judge != "troll"]
    up, down = said(judge="troll"), said(Verdict.DOWN, judge="troll")

    flooded = weigh_judgements([*others, *([said(verdict, judge="troll")] * min(flood, 200))]).get("x", 0.0)

    least, most = (weigh_judgements([*others, one]).get("x", 0.0) for one in (down, up))
    assert least - 1e-12 <= flooded <= most + 1e-12


def test_judges_who_agree_count_more_and_old_or_distant_verdicts_less() -> None:
    one = weigh_judgements([said()])["x"]

    assert one == 0.5
    assert weigh_judgements([said(), said(judge="b")])["x"] == pytest.approx(2 / 3)
    assert 0 < weigh_judgements([said(age=1)])["x"] < one
    assert 0 < weigh_judgements([said(alike=0.5)])["x"] < one
    assert weigh_judgements([said(), said(Verdict.DOWN, judge="b")]) == {}


def test_likeness_begins_at_the_least_cosine() -> None:
    assert [likeness(cosine, least=0.9) for cosine in (-1, 0.9, 1)] == [0, 0, 1]
    assert likeness(0.95, least=0.9) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="below 1"):
        likeness(1, least=1)
