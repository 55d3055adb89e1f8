"""Which queries of failed batches are remembered."""

from collections.abc import Sequence
from contextlib import suppress

import pytest
from opentelemetry.context import Context

from freki.schemas import Timestamp
from freki.streams.deliver import answered as module
from freki.streams.deliver.answered import Answered
from freki.streams.messages import Received


class Stop(Exception):
    """A batch fails, or is cancelled because its partition is another worker's now."""


def query(offset: int, *, partition: int = 0, at: int = 1_000) -> Received[str]:
    return Received(
        value=f"query {offset}",
        key=b"",
        headers=(),
        topic="queries",
        partition=partition,
        offset=offset,
        timestamp=Timestamp(at),
        trace=Context(),
    )


def failed(answered: Answered, batch: Sequence[Received[str]]) -> None:
    """Answer the first query of a batch, then fail."""
    with suppress(Stop), answered.left(batch) as left:
        answered.add(left[0])
        raise Stop


def test_what_does_not_come_again_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 8)
    answered = Answered()

    for offset in range(0, 100, 2):
        failed(answered, [query(offset), query(offset + 1)])

    assert [answered.has(query(offset)) for offset in (82, 84, 98)] == [False, True, True]
    assert len(answered._answered) == 8
    assert not answered._handled


def test_what_comes_again_is_left_out_and_then_forgotten() -> None:
    answered, batch = Answered(), [query(0), query(1)]
    failed(answered, batch)

    with answered.left(batch[:1]) as left:
        assert not left
    with answered.left(batch[1:]) as left:
        assert left == batch[1:]
        answered.add(batch[1])

    assert not answered._answered


def test_a_later_query_at_the_same_offset_is_another_one() -> None:
    """A broker that keeps records in memory starts over when it is started again."""
    answered = Answered()
    failed(answered, [query(0), query(1)])
    later = query(0, at=2_000)

    with answered.left([later]) as left:
        assert left == [later]
