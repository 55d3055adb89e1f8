"""Times in the terminal name one moment each."""

from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freki.cli.times import NO_TIME, time_of

HOUR = 3_600_000


@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.usefixtures("zone")
def test_both_hours_of_the_night_in_which_a_clock_is_put_back_differ() -> None:
    first = round(datetime.fromisoformat("2026-10-25T02:30:00+02:00").timestamp() * 1000)

    assert time_of(first) == "2026-10-25 02:30:00 +0200"
    assert time_of(first + HOUR) == "2026-10-25 02:30:00 +0100"


@pytest.mark.usefixtures("zone")
@given(seconds=st.integers(631_152_000, 253_402_214_399))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shown_time_is_read_as_the_moment_that_it_was_in_any_zone(seconds: int) -> None:
    assert datetime.strptime(time_of(seconds * 1000), "%Y-%m-%d %H:%M:%S %z").timestamp() == seconds


@pytest.mark.parametrize("counter", [-1, 0, 42, 1_700_000_000, 2**63 - 1])
def test_a_counter_is_no_time(counter: int) -> None:
    assert time_of(counter) == NO_TIME
