"""A day's tokens are spent once, whoever spends them."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from freki.infra.llm.ledger import TokenLedger
from freki.schemas.errors import Misconfigured


class Day:
    def __init__(self) -> None:
        self.name = "2026-01-01"

    def __call__(self) -> str:
        return self.name


def ledger(path: Path, most: int = 100, day: Day | None = None) -> TokenLedger:
    return TokenLedger(path / "state" / "tokens", most=most, day=day or Day())


async def test_tokens_are_granted_until_the_day_has_no_more(tmp_path: Path) -> None:
    counted = ledger(tmp_path)

    assert [await counted.take(40) for _ in range(3)] == [True, True, False]
    assert await counted.take(20)


async def test_what_is_given_back_can_be_taken_again(tmp_path: Path) -> None:
    counted = ledger(tmp_path)
    await counted.take(100)

    await counted.give_back(30)

    assert [await counted.take(31), await counted.take(30)] == [False, True]


async def test_a_call_that_took_more_than_was_granted_counts_in_full(tmp_path: Path) -> None:
    counted = ledger(tmp_path)
    await counted.take(90)

    await counted.give_back(-50)

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
    looks = iter(["2026-01-01"])
    at_midnight = TokenLedger(tmp_path / "state" / "tokens", most=100, day=lambda: next(looks, "2026-01-02"))

    await at_midnight.take(1)

    assert await at_midnight.take(100)


async def test_without_a_limit_all_is_granted(tmp_path: Path) -> None:
    counted = ledger(tmp_path, most=0)

    assert all([await counted.take(10**9) for _ in range(3)])


async def test_many_at_once_never_take_more_than_there_is(tmp_path: Path) -> None:
    ledgers = [ledger(tmp_path) for _ in range(4)]

    granted = await asyncio.gather(*(counted.take(7) for counted in ledgers * 10))

    assert sum(granted) == 100 // 7


async def test_what_a_model_wrote_is_not_lost_because_its_tokens_cannot_be_given_back(tmp_path: Path) -> None:
    counted = ledger(tmp_path)
    await counted.take(100)
    (tmp_path / "state" / "tokens").write_text("what is this")

    with capture_logs() as logged:
        await counted.give_back(30)

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
