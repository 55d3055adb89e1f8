"""Queries that wait for versions of documents."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freki.schemas import DocumentId, VersionFloor
from freki.streams.retrieve.steps.wait import POLL_S, wait_for_versions


class Waiting:
    """A query for a version that never comes, on a clock that only its pauses move."""

    def __init__(self, deadline_s: float) -> None:
        self.now_s = 0.0
        self.deadline_s = deadline_s
        self.looks_s: list[float] = []

    async def __call__(self, _queries: object, _step: str, call: Any) -> Any:
        return await call

    def spare_s(self, _query: object, *, before: object) -> float:
        assert before
        return self.deadline_s - self.now_s

    async def roots(self, _keys: object) -> dict[str, Any]:
        self.looks_s.append(self.now_s)
        return {}

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    async def run(self) -> list[float]:
        """Wait until the deadline, and return when the index was looked at."""
        floor = VersionFloor(document_id=DocumentId("d"), version=1)
        log = SimpleNamespace(
            clock_ns=lambda: int(self.now_s * 1e9), **dict.fromkeys(("notice", "ran", "retract"), lambda *_: None)
        )
        query = SimpleNamespace(query=SimpleNamespace(tenant="t", at_least=(floor,)), log=log)
        in_flight = SimpleNamespace(begin=lambda _: None, end=lambda _: None)
        await wait_for_versions(cast("Any", self), cast("Any", self), cast("Any", in_flight), cast("Any", query))
        return self.looks_s


async def test_whoever_waits_long_looks_less_often_and_once_more_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(600.0)
    monkeypatch.setattr("freki.streams.retrieve.steps.wait.asyncio", SimpleNamespace(sleep=waiting.sleep))

    looks_s = await waiting.run()

    # Every 20 ms they would be 30,000, of each of many that wait beside the queries of others.
    assert len(looks_s) < 1_500
    assert looks_s[-1] >= waiting.deadline_s - POLL_S


async def test_a_version_that_comes_soon_is_seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(2.0)
    monkeypatch.setattr("freki.streams.retrieve.steps.wait.asyncio", SimpleNamespace(sleep=waiting.sleep))

    looks_s = await waiting.run()

    for earlier, later in pairwise(looks_s):
        assert later - earlier <= max(POLL_S, earlier / 10) + 1e-6
