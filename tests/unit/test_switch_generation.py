"""A switch asks workers which generation they answer from, without adding to their work."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import cast

import pytest

from freki.cli import generations
from freki.cli.generations import PROBES, SwitchProgress, _followed
from freki.infra.settings import Settings
from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import validate_query
from freki.schemas import ContextQuery
from freki.streams.client import Asker


class Answer:
    """As much of a result as the command reads."""

    def __init__(self, generation: str) -> None:
        self.generation = generation


class Workers:
    """Workers that answer probes from these generations; None: no answer in time."""

    def __init__(self, answers: Iterator[str | None]) -> None:
        self._answers = answers
        self.asked: list[ContextQuery] = []

    async def ask(self, query: ContextQuery, *, patience_s: float) -> Answer:  # noqa: ARG002 - as an Asker is called
        self.asked.append(query)
        generation = next(self._answers)
        if generation is None:
            raise TimeoutError
        return Answer(generation)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEEN_S", "FOLLOW_S"):
        monkeypatch.setattr(generations, name, 0.0)


async def followed(workers: Workers) -> SwitchProgress:
    return await _followed(cast("Asker", workers), Settings(), "g2")


async def test_a_probe_asks_nothing_of_store_and_models() -> None:
    """Two dozen real questions take the time of a busy worker, and make those of people wait."""
    workers = Workers(repeat("g2"))

    result = await followed(workers)

    assert (result.missing, len(workers.asked)) == (0, PROBES)
    for query in workers.asked:
        with pytest.raises(InvalidQuery):
            validate_query(query)


async def test_workers_that_are_behind_and_those_that_are_silent_are_told_apart() -> None:
    result = await followed(Workers(chain(["g1"] * 3, [None], repeat("g2"))))

    assert (result.others, result.unanswered) == (3, 1)
    assert str(result) == f"3 of {PROBES} probes came from another generation and 1 of {PROBES} probes had no answer"
