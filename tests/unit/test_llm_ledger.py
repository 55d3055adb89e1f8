"""A day's tokens are spent once, whoever spends them."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from freki.infra.llm.ledger import TokenLedger
from freki.schemas.errors import Misconfigured

DAY = "2026-01-01"


class Day:
    def __init__(self) -> None:
        self.name = DAY

    def __call__(self) -> str:
        return self.name


def ledger(path: Path, most: int = 100, day: Day | None = None) -> TokenLedger:
    return TokenLedger(path / "state" / "tokens", most=most, day=day or Day())


async def test_tokens_are_granted_until_the_day_has_no_more(tmp_path: Path) -> None:
    counted = ledger(tmp_path)

    assert [await counted.take(40) for _ in range(3)] == [DAY, DAY, None]
    assert await counted.take(20)


async def test_what_is_given_back_can_be_taken_again(tmp_path: Path) -> None:
    counted = ledger(tmp_path)
    await counted.take(100)

    await counted.give_back(30, day=DAY)

    assert [await counted.take(31), await counted.take(30)] == [None, DAY]


async def test_a_call_that_took_more_than_was_granted_counts_in_full(tmp_path: Path) -> None:
    counted = ledger(tmp_path)
    await counted.take(90)

    await counted.give_back(-50, day=DAY)

    assert not await counted.take(1)


async def test_a_worker_that_starts_anew_goes_on_counting(tmp_path: Path) -> None:
    await ledger(tmp_path).take(80)

    assert not await ledger(tmp_path).take(30)


async def test_the_next_day_begins_anew(tmp_path: Path) -> None:
    day = Day()
    counted = ledger(tmp_path, day=day)
    await counted.take(100)

    day.name = "2026-01-02"

    assert await counted.take(100)


async def test_midnight_within_a_reservation_counts_the_day_before_for_no_other(tmp_path: Path) -> None:
    await ledger(tmp_path).take(90)
    looks = iter([DAY])
    at_midnight = TokenLedger(tmp_path / "state" / "tokens", most=100, day=lambda: next(looks, "2026-01-02"))

    await at_midnight.take(1)

    assert await at_midnight.take(100)


async def test_what_is_given_back_after_midnight_is_none_of_the_new_day(tmp_path: Path) -> None:
    day = Day()
    counted = ledger(tmp_path, day=day)
    before = await counted.take(50)
    day.name = "2026-01-02"
    await counted.take(90)

    await counted.give_back(50, day=str(before))

    assert [await counted.take(11), await counted.take(10)] == [None, "2026-01-02"]


async def test_a_clock_that_goes_back_over_midnight_grants_no_day_anew(tmp_path: Path) -> None:
    day = Day()
    counted = ledger(tmp_path, day=day)
    await counted.take(100)
    day.name = "2026-01-02"
    await counted.take(90)

    day.name = DAY

    assert [await counted.take(100), await counted.take(10)] == [None, "2026-01-02"]


async def test_a_clock_that_was_years_ahead_does_not_stop_the_days(tmp_path: Path) -> None:
    day = Day()
    counted = ledger(tmp_path, day=day)
    day.name = "2099-01-01"
    await counted.take(100)

    day.name = DAY

    assert await counted.take(100) == DAY


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 25]), st.integers(-23, 0), st.sampled_from([1, 50, 100]), st.sampled_from([0.0, 1.0])
        ),
        min_size=2,
        max_size=12,
    )
)
async def test_each_day_grants_its_tokens_once_wherever_the_clock_is_put(
    steps: list[tuple[int, int, int, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    now = datetime(2028, 2, 27, tzinfo=UTC)
    shown, granted, unsettled = now, Counter[str](), list[tuple[str, int]]()
    counted = TokenLedger(tmp_path_factory.mktemp("ledger") / "tokens", most=100, day=lambda: shown.date().isoformat())
    for hours, wrong_by, tokens, unused in steps:
        now += timedelta(hours=hours)
        shown = now + timedelta(hours=wrong_by)
        day = await counted.take(tokens)
        if day is not None:
            granted[day] += tokens
            unsettled.append((day, int(tokens * unused)))
        # Of the calls before this one, the oldest ends.
        if len(unsettled) > 1:
            ended, left = unsettled.pop(0)
            await counted.give_back(left, day=ended)
            granted[ended] -= left

    assert all(tokens <= 100 for tokens in granted.values())


async def test_without_a_limit_all_is_granted(tmp_path: Path) -> None:
    counted = ledger(tmp_path, most=0)

    assert all([await counted.take(10**9) for _ in range(3)])


async def test_many_at_once_never_take_more_than_there_is(tmp_path: Path) -> None:
    ledgers = [ledger(tmp_path) for _ in range(4)]

    granted = await asyncio.gather(*(counted.take(7) for counted in ledgers * 10))

    assert len([day for day in granted if day is not None]) == 100 // 7


async def test_what_a_model_wrote_is_not_lost_because_its_tokens_cannot_be_given_back(tmp_path: Path) -> None:
    counted = ledger(tmp_path)
    await counted.take(100)
    (tmp_path / "state" / "tokens").write_text("what is this")

    with capture_logs() as logged:
        await counted.give_back(30, day=DAY)

    assert [each["event"] for each in logged] == ["unused tokens could not be given back"]
    with pytest.raises(Misconfigured, match="FREKI_LLM__LEDGER"):
        await counted.take(1)


@pytest.mark.parametrize("text", ["", "what is this", "2026-01-01 none"])
async def test_a_file_that_is_none_of_ours_is_named_with_the_fix(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text, encoding="ascii")

    with pytest.raises(Misconfigured, match=r"FREKI_LLM__LEDGER=.* holds no day and number: remove it"):
        await TokenLedger(path, most=1, day=Day()).take(1)


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Misconfigured, match=r"FREKI_LLM__LEDGER=.* cannot be written"):
        await TokenLedger(tmp_path / "file" / "tokens", most=1).take(1)
