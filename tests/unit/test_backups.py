import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.backups import name_of, seconds_of, superseded_backups, time_of, wait_s
from freki.schemas import Timestamp

LAST = Timestamp(4_102_444_800_000)
times = st.integers(min_value=0, max_value=4_102_444_800).map(lambda seconds: Timestamp(1000 * seconds))
names = st.lists(times.map(name_of) | st.sampled_from(["notes", "freki-now", "freki-20261399T000000Z"]), unique=True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1h", 3600), ("1.5 H", 5400), ("1d", 86400)]
)
def test_intervals_have_units(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "0", "0m", "-1h", "1y", "1h30m", "tomorrow"])
def test_what_is_no_interval_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 30m, 1h or 1d"):
        seconds_of(text)


@given(times)
def test_the_name_of_a_backup_tells_when_it_began(time: Timestamp) -> None:
    assert time_of(name_of(time)) == time


@given(times, times)
def test_names_sort_by_time(one: Timestamp, other: Timestamp) -> None:
    assert (name_of(one) < name_of(other)) == (one < other)


def test_the_next_backup_is_due_an_interval_after_the_newest_complete_one() -> None:
    complete = [name_of(Timestamp(1_000_000)), name_of(Timestamp(4_000_000)), "notes"]

    assert wait_s(complete, every_s=3600, now=Timestamp(5_000_000)) == 2600
    assert wait_s(complete, every_s=3600, now=Timestamp(9_000_000)) == 0
    assert wait_s(["notes"], every_s=3600, now=Timestamp(0)) == 0


@pytest.mark.parametrize("keep", [1, 2])
def test_a_backup_of_the_future_takes_no_place_of_one_that_was_made_after_the_clock_was_set_back(keep: int) -> None:
    now, future = Timestamp(9_000_500), name_of(Timestamp(90_000_000_000))
    made = [name_of(Timestamp(5_000_000)), name_of(now)]

    assert superseded_backups([*made, future], [], keep=keep, now=now) == [future, made[0]][: 3 - keep]
    assert wait_s([made[0], future], every_s=3600, now=now) == 0
    assert wait_s([*made, future], every_s=3600, now=now) == 3599.5


@given(names, names, st.integers(min_value=1, max_value=5))
def test_the_newest_complete_backups_and_foreign_folders_stay(
    complete: list[str], unfinished: list[str], keep: int
) -> None:
    unfinished = [name for name in unfinished if name not in complete]

    gone = superseded_backups(complete, unfinished, keep=keep, now=LAST)

    dated = sorted(name for name in complete if time_of(name) is not None)
    assert set(dated[-keep:]).isdisjoint(gone)
    assert all(time_of(name) is not None for name in gone)
    assert set(gone) & set(complete) == set(dated[:-keep])
    assert all(dated and name < dated[-1] for name in set(gone) & set(unfinished))


def test_at_least_one_backup_is_kept() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        superseded_backups([], [], keep=0, now=LAST)
