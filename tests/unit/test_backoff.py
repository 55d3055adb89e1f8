from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.backoff import backoff

attempts = st.integers(min_value=1, max_value=10_000)
firsts = st.floats(min_value=0.001, max_value=10)


def test_waits_double_up_to_the_longest() -> None:
    assert [backoff(attempt, first=0.5, longest=3.0) for attempt in (1, 2, 3, 4, 5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@given(attempt=attempts, first=firsts, jitter=st.floats(min_value=0, max_value=1))
def test_jitter_shortens_a_wait_by_a_half_at_most(attempt: int, first: float, jitter: float) -> None:
    full = backoff(attempt, first=first, longest=100.0)

    assert full / 2 <= backoff(attempt, first=first, longest=100.0, jitter=jitter) <= full <= 100.0
