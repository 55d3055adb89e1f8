"""What was read before a machine slept has aged when it wakes up."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from freki.infra.caches import BoundedCache
from freki.infra.elapsed import elapsed_ns, elapsed_s
from freki.infra.kafka.tokens import Tokens
from freki.infra.settings import OAuthSettings
from freki.schemas import Coverage, Hold
from freki.streams.wire.erasing.holds import RecentHolds
from tests.erasing import TENANT, hold

pytestmark = pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="no clock goes on while the machine sleeps")

Sleep = Callable[[float], None]


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Sleep:
    """Return what lets the machine sleep for some seconds: one clock goes on meanwhile, `time.monotonic` does not."""
    read, slept_ns = time.clock_gettime_ns, 0

    def sleep(seconds: float) -> None:
        nonlocal slept_ns
        slept_ns += round(seconds * 1e9)

    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: read(clock) + slept_ns * (clock == time.CLOCK_BOOTTIME))
    return sleep


def test_elapsed_time_goes_on_while_the_machine_sleeps_and_never_back(sleep: Sleep) -> None:
    began_ns, began_s = elapsed_ns(), elapsed_s()

    sleep(3_600)

    assert elapsed_ns() >= began_ns + 3_600 * 10**9
    assert elapsed_s() >= began_s + 3_600


async def test_a_hold_that_is_placed_while_the_machine_sleeps_counts_when_it_wakes_up(sleep: Sleep) -> None:
    placed: list[Hold] = []

    async def read() -> Sequence[Hold]:
        return tuple(placed)

    book = RecentHolds(read)
    assert await book.of(TENANT) == []

    placed.append(hold("h", Coverage(whole_tenant=True)))
    sleep(3_600)

    assert [each.name for each in await book.of(TENANT)] == ["h"]


def test_a_token_of_the_broker_that_ended_while_the_machine_slept_is_asked_for_again(
    sleep: Sleep, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    tokens = Tokens(OAuthSettings(token_command=f"sh -c 'echo x >> {given}; echo token-$(wc -l < {given})'"))
    assert tokens.get() == tokens.get() == "token-1"

    sleep(3_600)

    assert tokens.get() == "token-2"


def test_what_is_kept_for_some_seconds_is_let_go_after_a_sleep(sleep: Sleep) -> None:
    cache = BoundedCache[str]("kept", most_bytes=1_000, seconds=600)
    cache.keep("key", "content", size=10)
    assert cache.get("key") == "content"

    sleep(3_600)

    assert cache.get("key") is None
