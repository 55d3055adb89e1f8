from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import Timestamp
from freki.streams.retrieve.budget.breaker import FAILURES, LONGEST_REST_MS, REST_MS, Breaker


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> Timestamp:
        return Timestamp(self.ms)

    def seconds(self) -> float:
        return self.ms / 1000


def broken(clock: Clock) -> Breaker:
    breaker = Breaker(clock, clock.seconds)
    for _ in range(FAILURES):
        breaker.failed("remote", "it is down")
    return breaker


def test_single_failures_change_nothing() -> None:
    clock = Clock()
    breaker = Breaker(clock, clock.seconds)
    for _ in range(3 * FAILURES):
        breaker.failed("remote", "it is down")
        breaker.succeeded("remote")

    assert breaker.refusal("remote") == ""


def test_after_failures_in_a_row_nobody_calls_and_the_reason_is_told_with_the_time() -> None:
    breaker = broken(Clock())

    assert breaker.refusal("remote") == "left alone until 00:16:45 UTC: it is down"
    assert breaker.refusal("local") == ""


def test_after_the_rest_one_call_tries_and_the_others_wait_for_it() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.ms += REST_MS

    assert breaker.refusal("remote") == ""
    assert breaker.refusal("remote")
    breaker.succeeded("remote")
    assert breaker.refusal("remote") == ""


def test_a_trial_that_fails_doubles_the_rest() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.ms += REST_MS
    assert breaker.refusal("remote") == ""

    breaker.failed("remote", "still down")

    clock.ms += 2 * REST_MS - 1
    assert breaker.refusal("remote")
    clock.ms += 1
    assert breaker.refusal("remote") == ""


def test_calls_that_fail_together_are_one_outage() -> None:
    clock = Clock()
    breaker = broken(clock)
    for _ in range(20):
        breaker.failed("remote", "it is down")

    clock.ms += REST_MS

    assert breaker.refusal("remote") == ""


def test_a_trial_that_nobody_heard_of_again_is_made_again() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.ms += REST_MS
    assert breaker.refusal("remote") == ""

    clock.ms += REST_MS

    assert breaker.refusal("remote") == ""


def test_a_service_that_says_when_to_come_again_is_left_alone_at_once() -> None:
    clock = Clock()
    breaker = Breaker(clock, clock.seconds)

    breaker.failed("remote", "too many requests", wait_s=30)

    clock.ms += 29_999
    assert breaker.refusal("remote")
    clock.ms += 1
    assert breaker.refusal("remote") == ""


def test_a_clock_that_is_set_back_prolongs_no_rest() -> None:
    clock, elapsed = Clock(), Clock()
    breaker = Breaker(clock, elapsed.seconds)
    for _ in range(FAILURES):
        breaker.failed("remote", "it is down")
    clock.ms = 0

    assert breaker.refusal("remote") == "left alone until 00:00:05 UTC: it is down"
    elapsed.ms += REST_MS
    assert breaker.refusal("remote") == ""


@given(events=st.lists(st.sampled_from(["fail", "wait"]), max_size=60), wait_s=st.floats(0, 1e9))
def test_however_often_it_fails_it_is_tried_again_in_the_end(events: list[str], wait_s: float) -> None:
    clock = Clock()
    breaker = Breaker(clock, clock.seconds)
    for event in events:
        if event == "wait":
            clock.ms += REST_MS
        elif not breaker.refusal("remote"):
            breaker.failed("remote", "it is down", wait_s=wait_s)

    clock.ms += LONGEST_REST_MS

    assert breaker.refusal("remote") == ""
