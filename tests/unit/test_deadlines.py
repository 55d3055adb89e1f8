"""How the time of queries is estimated, shared out and kept."""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_text import query_terms
from freki.schemas import ContextQuery, QueryId, ResultStatus, TenantId, Timestamp
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.budget.admit import AdmissionControl
from freki.streams.retrieve.budget.attempts import LEAVING, RECHECK, Attempts
from freki.streams.retrieve.budget.deadline_lock import DeadlineLock
from freki.streams.retrieve.budget.estimates import Estimates
from freki.streams.retrieve.budget.in_flight import CROWD_S, InFlight
from freki.streams.retrieve.budget.load import Load
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.query_parser import QueryParser
from freki.streams.retrieve.steps.surround import AUGMENT
from tests.simulated_time import in_simulated_time
from tests.unit.questions import OPTIONS, now, stores
from tests.unit.revisions import TENANT, World

times = st.floats(0.001, 10, allow_nan=False)


class Clock:
    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def ms(self) -> Timestamp:
        return Timestamp(round(self.now_s * 1000))


class TestEstimates:
    def test_a_step_that_was_never_seen_takes_no_time(self) -> None:
        assert Estimates(Clock()).careful_s("locate", "send") == 0

    @given(seconds=times)
    def test_a_step_that_always_takes_the_same_is_estimated_so(self, seconds: float) -> None:
        estimates = Estimates(Clock())
        for _ in range(60):
            estimates.learn("locate", seconds)

        assert estimates.typical_s("locate") == pytest.approx(seconds)
        assert estimates.careful_s("locate") == pytest.approx(seconds, rel=0.01)

    @given(seen=st.lists(times, min_size=1, max_size=50))
    def test_to_be_careful_is_to_allow_more_than_is_typical_of_what_was_seen(self, seen: list[float]) -> None:
        estimates = Estimates(Clock())
        for seconds in seen:
            estimates.learn("locate", seconds)

        assert min(seen) - 1e-9 <= estimates.typical_s("locate") <= max(seen) + 1e-9
        assert estimates.careful_s("locate") >= estimates.typical_s("locate")

    @given(seen=st.lists(st.lists(times, min_size=1, max_size=20), min_size=1, max_size=4))
    def test_that_all_are_slow_at_once_is_less_likely_than_that_one_is(self, seen: list[list[float]]) -> None:
        estimates = Estimates(Clock())
        for stage, seconds in enumerate(seen):
            for each in seconds:
                estimates.learn(str(stage), each)
        stages = [str(stage) for stage in range(len(seen))]

        typical_s, likely_s, careful_s = (
            of(*stages) for of in (estimates.typical_s, estimates.likely_s, estimates.careful_s)
        )

        assert typical_s <= likely_s * (1 + 1e-9)
        assert likely_s <= careful_s * (1 + 1e-9)
        assert estimates.likely_s("0") == pytest.approx(estimates.careful_s("0"))

    @given(usual=st.lists(st.floats(0.01, 0.02), min_size=20, max_size=50), outlier=times)
    def test_one_slow_value_does_not_keep_time_from_the_next_queries(self, usual: list[float], outlier: float) -> None:
        estimates = Estimates(Clock())
        for seconds in [*usual, outlier]:
            estimates.learn("send", seconds)

        assert estimates.careful_s("send") <= 6 * max(usual)

    @given(usual=st.floats(0.001, 0.1), factor=st.floats(1, 100))
    def test_what_stays_slow_or_becomes_quick_again_is_learnt_within_a_few_values(
        self, usual: float, factor: float
    ) -> None:
        estimates = Estimates(Clock())
        for seconds in [usual] * 20 + [factor * usual] * 10:
            estimates.learn("send", seconds)
        slow_s = estimates.careful_s("send")
        for _ in range(40):
            estimates.learn("send", usual)

        assert slow_s >= factor * usual * (1 - 1e-9)
        assert estimates.careful_s("send") <= 6 * usual

    def test_a_slow_first_value_is_forgotten(self) -> None:
        estimates = Estimates(Clock())
        for seconds in [10.0] + [0.01] * 16:
            estimates.learn("send", seconds)

        assert estimates.careful_s("send") < 0.1

    def test_steps_add_up_and_an_old_estimate_fades(self) -> None:
        clock = Clock()
        estimates = Estimates(clock)
        estimates.learn("locate", 0.2)
        estimates.learn("send", 0.1)

        now_s = estimates.typical_s("locate", "send")
        clock.now_s += 5

        assert now_s == pytest.approx(0.3)
        assert estimates.typical_s("locate", "send") == pytest.approx(0.15)


class TestAtHand:
    @given(others=st.lists(st.integers(0, 2_000), max_size=6))
    def test_answers_that_are_due_shortly_before_or_with_another_are_waited_for(self, others: list[int]) -> None:
        clock = Clock()
        estimates, in_flight = Estimates(clock), InFlight(clock.ms)
        estimates.learn("assemble", 0.02)
        attempts = Attempts(now=clock.ms, clock_s=clock, estimates=estimates, in_flight=in_flight, meters=Meters())
        own, *crowd = (_parsed(clock, deadline_ms) for deadline_ms in (1000, *others))

        alone_s = attempts.spare_s(own, before=LEAVING)
        in_flight.begin([own, *crowd])
        among_s = attempts.spare_s(own, before=LEAVING)
        in_flight.end(crowd)

        waited_for = sum(1000 * (1 - CROWD_S) <= deadline_ms <= 1000 for deadline_ms in others)
        assert among_s == pytest.approx(alone_s - 0.02 * waited_for)
        assert attempts.spare_s(own, before=LEAVING) == alone_s

    @in_simulated_time
    async def test_what_is_read_around_hits_leaves_time_to_look_whether_their_documents_still_stand(self) -> None:
        attempts = _after_a_slow_look_at_roots()
        query = _parsed(Clock(now() / 1000), 5_000)

        around = await attempts([query], AUGMENT, asyncio.Event().wait())
        standing = await attempts([query], RECHECK, asyncio.sleep(0.05, "they stand"))

        assert (around, standing) == (None, "they stand")

    @in_simulated_time
    async def test_what_an_answer_cannot_do_without_has_the_time_of_a_second_look_that_it_makes_needless(self) -> None:
        attempts = _after_a_slow_look_at_roots()
        query = _parsed(Clock(now() / 1000), 5_000)

        read = await attempts([query], "locate", asyncio.sleep(0.05, "read"), fresh_s=0.5)
        too_late = await attempts([query], "locate", asyncio.Event().wait(), fresh_s=0.01)

        assert (read, too_late) == ("read", None)

    def test_one_that_computes_leaves_all_others_as_much_time(self) -> None:
        clock = Clock()
        in_flight = InFlight(clock.ms)
        own, *others = (_parsed(clock, deadline_ms) for deadline_ms in (10_000, 12_000, 12_000, 100_000))

        in_flight.begin([own])
        alone_s = in_flight.share_s(own, clock() + 9)
        in_flight.begin(others)
        shared_s = in_flight.share_s(own, clock() + 9)

        # 11 s until the second and the third must be done, a second before they are due as well
        assert alone_s == pytest.approx(9)
        assert shared_s == pytest.approx(11 / 3)

    @given(deadlines=st.lists(st.integers(1, 10_000), min_size=1, max_size=8))
    def test_where_each_takes_its_share_in_turn_all_end_in_time(self, deadlines: list[int]) -> None:
        clock = Clock()
        in_flight = InFlight(clock.ms)
        states = sorted((_parsed(clock, each) for each in deadlines), key=lambda state: state.options.deadline_ms)
        ends = [clock() + state.options.deadline_ms / 1000 for state in states]
        in_flight.begin(states)

        for state, ends_at_s in zip(states, ends, strict=True):
            clock.now_s += in_flight.share_s(state, ends_at_s)
            in_flight.end([state])
            # The clock of deadlines ticks in milliseconds.
            assert clock() <= ends_at_s + 0.001 * len(states)


class TestLoad:
    def test_nothing_is_expected_of_what_was_never_seen(self) -> None:
        assert Load().expected_s(16) == 0

    def test_a_first_burst_is_expected_to_take_no_longer_than_one(self) -> None:
        load = Load()
        load.learn(1, 0.04)

        assert load.expected_s(16) == pytest.approx(0.04)

    @given(base_s=st.floats(0.001, 0.1), each_s=st.floats(0.001, 0.1))
    def test_a_line_is_learnt(self, base_s: float, each_s: float) -> None:
        load = Load()
        for at_once in [1, 16, 4, 8] * 30:
            load.learn(at_once, base_s + each_s * at_once)

        assert load.expected_s(12) == pytest.approx(base_s + each_s * 12, rel=0.02)

    @given(
        usual=st.lists(st.tuples(st.integers(1, 4), st.floats(0.04, 0.06)), min_size=20, max_size=50),
        outlier=st.tuples(st.integers(1, 4), times),
        at_once=st.integers(1, 4),
    )
    def test_one_slow_lookup_is_not_expected_of_the_next(
        self, usual: list[tuple[int, float]], outlier: tuple[int, float], at_once: int
    ) -> None:
        load = Load()
        for number, seconds in [*usual, outlier]:
            load.learn(number, seconds)

        assert load.expected_s(at_once) <= 8 * 0.06

    @given(at_once=st.integers(1, 4))
    def test_a_slow_first_lookup_is_forgotten_with_the_next(self, at_once: int) -> None:
        load = Load()
        for seconds in (2.5, 0.04):
            load.learn(at_once, seconds)

        assert load.expected_s(at_once + 1) < 0.2

    @given(usual=st.floats(0.001, 0.1), factor=st.floats(1, 20), at_once=st.integers(1, 16))
    def test_what_stays_slow_or_becomes_quick_again_is_learnt_within_a_few_lookups(
        self, usual: float, factor: float, at_once: int
    ) -> None:
        load = Load()
        for seconds in [usual] * 20 + [factor * usual] * 24:
            load.learn(at_once, seconds)
        slow_s = load.expected_s(at_once)
        for _ in range(40):
            load.learn(at_once, usual)

        assert slow_s >= 0.8 * factor * usual
        assert load.expected_s(at_once) <= 2 * usual

    @given(
        seen=st.lists(st.tuples(st.integers(1, 64), times), max_size=60),
        few=st.integers(1, 64),
        more=st.integers(0, 64),
    )
    def test_more_at_once_are_never_expected_to_take_less(
        self, seen: list[tuple[int, float]], few: int, more: int
    ) -> None:
        load = Load()
        for at_once, seconds in seen:
            load.learn(at_once, seconds)

        assert 0 <= load.expected_s(few) <= load.expected_s(few + more)


class TestFairTurns:
    async def test_the_most_urgent_is_next_and_only_one_has_the_turn(self) -> None:
        turns, order, holding = DeadlineLock(), [], 0

        async def take(ends_at_s: float) -> None:
            nonlocal holding
            async with turns.turn(ends_at_s):
                holding += 1
                assert holding == 1
                order.append(ends_at_s)
                await asyncio.sleep(0)
                holding -= 1

        await asyncio.gather(*(take(ends_at_s) for ends_at_s in (1.0, 9.0, 3.0, 5.0)))

        assert order == [1.0, 3.0, 5.0, 9.0]

    @given(
        ends=st.lists(st.floats(0.1, 10), min_size=1, max_size=8),
        cancelled=st.sets(st.integers(0, 7)),
    )
    async def test_all_come_up_and_one_who_gives_up_holds_nobody_up(
        self, ends: list[float], cancelled: set[int]
    ) -> None:
        turns, done = DeadlineLock(), set()

        async def take(place: int, ends_at_s: float) -> None:
            async with turns.turn(ends_at_s):
                await asyncio.sleep(0)
                done.add(place)

        async with turns.turn(0.0):
            tasks = [asyncio.create_task(take(place, end)) for place, end in enumerate(ends)]
            await asyncio.sleep(0)
            for place in cancelled:
                if place < len(tasks):
                    tasks[place].cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks, return_exceptions=True)
            async with turns.turn(0.0):
                pass

        assert done == set(range(len(ends))) - cancelled


class TestAdmission:
    def test_what_arrives_after_its_time_is_refused_at_once_and_told_so(self) -> None:
        clock = Clock()

        (reason,) = _admission(clock).refusals([_query(clock, 300, age_s=0.5)])

        assert reason is not None
        assert "its time had been over for 200 ms" in reason
        assert "deadline_ms" in reason

    def test_a_burst_is_answered_as_far_as_it_fits(self) -> None:
        # given a store that takes 50 ms for each that is at hand
        clock = Clock()
        admission = _admission(clock)
        for at_once in (1, 16) * 10:
            with admission.counted(at_once):
                clock.now_s += 0.05 * at_once

        reasons = admission.refusals([_query(clock, 300)] * 16)

        taken = [reason is None for reason in reasons]
        assert taken == sorted(taken, reverse=True)
        assert sum(taken) in {4, 5, 6}

    def test_those_with_time_are_taken_behind_one_that_has_none(self) -> None:
        clock = Clock()
        admission = _admission(clock)
        with admission.counted(1):
            clock.now_s += 0.2

        with admission.counted(1):
            reasons = admission.refusals([_query(clock, 100), _query(clock, 5000)])

        assert [reason is None for reason in reasons] == [False, True]

    def test_after_an_outage_one_at_a_time_is_tried_until_all_are_taken_again(self) -> None:
        # given that looking up took as long as the deadline for a while, and takes 40 ms now
        clock = Clock()
        admission = _admission(clock)
        for _ in range(50):
            with admission.counted(4):
                clock.now_s += 5.0
        before = admission.refusals([_query(clock, 300)] * 4)

        for _ in range(60):
            with admission.counted(sum(reason is None for reason in admission.refusals([_query(clock, 300)]))):
                clock.now_s += 0.04

        assert [reason is None for reason in before] == [True, False, False, False]
        assert admission.refusals([_query(clock, 300)] * 4) == [None] * 4

    def test_a_step_that_fails_is_learnt_from_as_well(self) -> None:
        clock = Clock()
        admission = _admission(clock)
        with suppress(OSError), admission.counted(1):
            clock.now_s += 1
            raise OSError

        assert admission.refusals([_query(clock, 300)] * 2)[1] is not None

    async def test_what_is_given_up_counts_for_longer_than_it_was_waited_for(self) -> None:
        # given a search that was broken off after 0.2 s, twice
        clock = Clock()
        admission = _admission(clock)
        for _ in range(2):
            with suppress(asyncio.CancelledError), admission.counted(2):
                clock.now_s += 0.2
                raise asyncio.CancelledError

        with admission.counted(1):
            refused = [reason is not None for reason in admission.refusals([_query(clock, 300), _query(clock, 500)])]

        assert refused == [True, False]

    def test_time_is_kept_for_those_who_leave_before(self) -> None:
        # given that an answer takes 20 ms to leave, and looking up 100 ms
        clock = Clock()
        estimates, in_flight = Estimates(clock), InFlight(clock.ms)
        for _ in range(100):
            estimates.learn("send", 0.02)
        admission = _admission(clock, estimates=estimates, in_flight=in_flight)
        with admission.counted(1):
            clock.now_s += 0.1
        in_flight.begin([_parsed(clock, 280) for _ in range(6)])

        with admission.counted(6):
            reasons = admission.refusals([_query(clock, 295)] * 16)

        # 195 ms for 9 that leave one after the other: 6 were there before
        assert [reason is None for reason in reasons] == [True] * 3 + [False] * 13


@pytest.mark.parametrize("set_back_s", [60, 3_600, 6_000])
async def test_a_clock_that_is_set_back_takes_no_time_from_the_next_query(world: World, set_back_s: int) -> None:
    clock = Clock(1e9)
    retriever = Retriever(
        RetrievalModels(embedder=world.embedder, rerankers=()),
        stores(world.index),
        QueryDefaults(options=OPTIONS),
        Clocks(now=clock.ms, ns=time.monotonic_ns),
    )

    async def status() -> ResultStatus:
        query = replace(_query(clock, OPTIONS.deadline_ms), tenant=TENANT)
        assert retriever.refusals([query]) == [None]
        ((_, result, _),) = [answer async for answer in retriever.answer([(query, "")])]
        retriever.learn_sending(0.01)
        return result.status

    before = await status()
    clock.now_s -= set_back_s

    assert (before, await status()) == (ResultStatus.COMPLETE, ResultStatus.COMPLETE)


def _admission(
    clock: Clock, *, estimates: Estimates | None = None, in_flight: InFlight | None = None
) -> AdmissionControl:
    estimates = estimates or Estimates(clock)
    return AdmissionControl(
        deadline_ms=OPTIONS.deadline_ms,
        estimates=estimates,
        in_flight=in_flight or InFlight(clock.ms),
        now=clock.ms,
        clock_s=clock,
    )


def _after_a_slow_look_at_roots() -> Attempts:
    estimates = Estimates(time.monotonic)
    estimates.learn("manifest", 5)
    return Attempts(now=now, clock_s=time.monotonic, estimates=estimates, in_flight=InFlight(now), meters=Meters())


def _parsed(clock: Clock, deadline_ms: int) -> ParsedQuery:
    understand = QueryParser(defaults=OPTIONS, profiles={}, analyse_text=query_terms, clock_ns=lambda: 0)
    return understand(_query(clock, max(1, deadline_ms)), "", clock.ms())


def _query(clock: Clock, deadline_ms: int, *, age_s: float = 0.0) -> ContextQuery:
    asked_at = Timestamp(clock.ms() - round(age_s * 1000))
    return ContextQuery(
        query_id=QueryId("q"), tenant=TenantId("t"), text="Was?", asked_at=asked_at, deadline_ms=deadline_ms
    )
