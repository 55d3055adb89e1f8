from hypothesis import given
from hypothesis import strategies as st

from freki.operators.age import UNKNOWN_AGE, age_ms
from freki.schemas import Timestamp
from freki.schemas.names import FIRST_YEAR_MS, is_known

times = st.integers(FIRST_YEAR_MS, 2**43).map(Timestamp)


@given(occurred_at=times, now=times)
def test_an_age_is_the_time_since_and_never_below_0(occurred_at: Timestamp, now: Timestamp) -> None:
    assert is_known(occurred_at)
    assert age_ms(occurred_at, now) == max(0, now - occurred_at)


@given(counter=st.integers(0, FIRST_YEAR_MS - 1).map(Timestamp), now=times)
def test_a_counter_has_no_age(counter: Timestamp, now: Timestamp) -> None:
    assert not is_known(counter)
    assert age_ms(counter, now) == UNKNOWN_AGE
