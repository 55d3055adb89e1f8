from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.names import Timestamp
from freki.streams.observe.lag import Lag

PLACE = ("documents", 0)


def ages(lag: Lag, now: int) -> list[float]:
    return [each.age_s for each in lag.waiting(Timestamp(now))]


def test_nothing_that_waits_is_no_lag() -> None:
    lag = Lag()

    lag.seen({PLACE: 0}, now=Timestamp(1_000))

    (waiting,) = lag.waiting(Timestamp(9_000))
    assert (waiting.records, waiting.age_s) == (0, 0.0)


def test_what_came_while_nothing_waited_is_no_older_than_that_look() -> None:
    # given a record that was read long ago, and a look that saw nothing wait
    lag = Lag()
    lag.reached([(PLACE, Timestamp(1_000))])
    lag.seen({PLACE: 0}, now=Timestamp(50_000))

    lag.seen({PLACE: 3}, now=Timestamp(55_000))

    assert ages(lag, 60_000) == [10.0]


def test_a_batch_that_hangs_lets_the_lag_grow_from_its_first_record() -> None:
    lag = Lag()
    lag.reached([(PLACE, Timestamp(10_000))])

    lag.seen({PLACE: 5}, now=Timestamp(12_000))

    assert ages(lag, 70_000) == [60.0]


def test_a_record_of_the_future_hides_nothing_that_waits_behind_it() -> None:
    lag = Lag()
    lag.reached([(PLACE, Timestamp(4_102_444_800_000))])

    lag.seen({PLACE: 5}, now=Timestamp(12_000))
    lag.seen({PLACE: 5}, now=Timestamp(60_000))

    assert ages(lag, 72_000) == [60.0]


def test_a_record_without_a_time_says_nothing_of_those_behind_it() -> None:
    lag = Lag()
    lag.seen({PLACE: 5}, now=Timestamp(50_000))

    lag.reached([(PLACE, Timestamp(0))])
    lag.seen({PLACE: 4}, now=Timestamp(55_000))

    assert ages(lag, 60_000) == [10.0]


def test_what_waited_before_this_process_came_is_as_old_as_its_records() -> None:
    lag = Lag()
    lag.seen({PLACE: 5}, now=Timestamp(50_000))

    lag.reached([(PLACE, Timestamp(1_000))])
    lag.seen({PLACE: 4}, now=Timestamp(55_000))

    assert ages(lag, 60_000) == [59.0]


def test_a_partition_that_comes_back_with_old_records_is_as_old_as_these() -> None:
    lag = Lag()
    lag.seen({PLACE: 0}, now=Timestamp(50_000))
    lag.seen({}, now=Timestamp(52_000))
    lag.seen({PLACE: 5}, now=Timestamp(54_000))

    lag.reached([(PLACE, Timestamp(1_000))])

    assert ages(lag, 60_000) == [59.0]


def test_a_partition_that_went_to_another_worker_is_forgotten() -> None:
    lag = Lag()
    lag.seen({PLACE: 5, ("documents", 1): 1}, now=Timestamp(0))

    lag.seen({("documents", 1): 1}, now=Timestamp(5))

    assert [(each.topic, each.partition) for each in lag.waiting(Timestamp(9))] == [("documents", 1)]


@given(
    waiting=st.lists(st.integers(0, 100_000), min_size=1, max_size=20),
    read=st.integers(0, 20),
    looked=st.integers(0, 120_000),
    later=st.integers(0, 60_000),
)
def test_the_age_is_never_below_that_of_the_oldest_record_that_waits(
    waiting: list[int], read: int, looked: int, later: int
) -> None:
    # given records in the order of their arrival, of which some were read, and a look at those that were there
    arrived = sorted(waiting)
    done, rest = arrived[:read], arrived[read:]
    lag = Lag()
    lag.seen({PLACE: 0}, now=Timestamp(0))
    lag.reached([(PLACE, Timestamp(timestamp)) for timestamp in done])

    present = [timestamp for timestamp in rest if timestamp <= looked]
    lag.seen({PLACE: len(present)}, now=Timestamp(looked))

    # then no record that waits is older than the lag says
    if present:
        assert round(ages(lag, looked + later)[0] * 1000) >= looked + later - present[0]
