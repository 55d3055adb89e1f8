"""Another index takes over while changes and queries go on, and workers are killed at every step."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from freki.schemas import ContextResult, ResultStatus
from freki.streams.wire.connect import open_asker, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import PATIENCE_S, delete, publish, query, upsert
from tests.own_stack.generations import (
    STABLE,
    TENANT,
    Held,
    command,
    rows_of,
    running,
    said,
    stable_documents,
    text_of,
)

EDITED = 6
ANSWERS = 101
"""Least answers while generations take turns."""
ASK_EVERY_S = 0.4
"""Between an answer and the next question: without a pause they would slow down the workers that start again."""
WORKERS = (("chunk", "contextualise"), ("embed",), ("embed",), ("retrieve",), ("retrieve",))


@dataclass
class Traffic:
    """Changes and queries that go on meanwhile, and what was answered."""

    freki: Freki
    answers: list[ContextResult] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self) -> None:
        async with open_asker(self.freki.settings) as asker:
            number = 0
            while not self.stop.is_set():
                number += 1
                text = f"Was wurde im Vorgang s{number % STABLE}-{number % 6} zu den Reisekosten entschieden?"
                asked = query(TENANT, text)
                self.answers.append(await asker.ask(asked, patience_s=PATIENCE_S))
                self.arrived.set()
                await asyncio.sleep(ASK_EVERY_S)

    async def edit(self) -> None:
        drawn = random.Random(7)  # noqa: S311
        async with open_receipts(self.freki.settings) as receipts, open_publisher(self.freki.settings) as publisher:
            while not self.stop.is_set():
                name = f"e{drawn.randrange(EDITED)}"
                version = self.versions[name] = self.versions.get(name, 0) + 1
                gone = drawn.random() < 0.2
                (self.deleted.add if gone else self.deleted.discard)(name)
                change = (
                    delete(TENANT, name, version=version)
                    if gone
                    else upsert(TENANT, name, text_of(name, version), version=version, name=f"{name}.txt")
                )
                receipts.expect(change)
                await publisher.publish(change)
                await receipts.next(patience_s=PATIENCE_S)
                await asyncio.sleep(0.3)

    async def answered(self, more: int) -> None:
        """Wait for further answers."""
        wanted = len(self.answers) + more
        while len(self.answers) < wanted:
            self.arrived.clear()
            await self.arrived.wait()


@pytest.fixture
async def several(tmp_path: Path) -> AsyncIterator[Freki]:
    async with running(tmp_path, WORKERS) as freki:
        yield freki


async def switched(freki: Freki, traffic: Traffic, name: str) -> tuple[int, int]:
    """Switch while a worker that answers dies; return when it began, and when every answer was of this generation."""
    begun = wall_clock()
    killing = asyncio.create_task(freki.children.kill("retrieve"))
    output = await said(freki, "switch", name)
    await killing
    assert f"{name} answers" in output
    followed = wall_clock()
    await freki.children.kill("retrieve-2")
    await traffic.answered(25)
    return begun, followed


async def test_another_generation_takes_over_and_gives_back_without_a_pause(several: Freki) -> None:
    traffic = Traffic(several)
    await publish(several, *stable_documents())

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(traffic.ask())
        group.create_task(traffic.edit())
        await traffic.answered(10)

        # Whoever fills the other generation is killed, and goes on where it was.
        filling = await command(several, "create", "g2")
        await asyncio.sleep(4)
        os.killpg(filling.pid, signal.SIGKILL)
        await filling.wait()
        filling = await command(several, "create", "g2")
        assert filling.stdout is not None
        async for line in filling.stdout:
            if b"g2 holds" in line:
                break
        await traffic.answered(10)
        switches = [await switched(several, traffic, name) for name in ("g2", "g1", "g2")]
        compared = await said(several, "compare", "g1", "g2", "--recorded", "10")
        listed = await said(several, "list")
        # Also on a machine that answers slowly.
        await traffic.answered(max(0, ANSWERS - len(traffic.answers)))
        traffic.stop.set()
    await _quiet(several, traffic)

    os.killpg(filling.pid, signal.SIGINT)
    await filling.wait()
    first, second = await rows_of(several, "g1"), await rows_of(several, "g2")

    assert {name: each[:2] for name, each in first.items()} == {name: each[:2] for name, each in second.items()}
    assert {name for name, (_, gone, _) in first.items() if gone} == traffic.deleted
    _check(traffic.answers, {"g1": first, "g2": second}, switches)
    assert all(first[f"s{number}"][2] != second[f"s{number}"][2] for number in range(STABLE))
    assert "The same first document for" in compared
    assert {"g1", "g2"} <= set(listed.split())

    assert "switch to another generation first" in await said(several, "drop", "g2", "--yes", code=1)
    assert "has members: end the worker" in await said(several, "drop", "g1", "--yes", code=1), (
        "they would make an empty one"
    )
    await said(several, "switch", "g1")
    assert "removed g2" in await said(several, "drop", "g2", "--yes")
    assert "g2" not in await said(several, "list")
    after = Traffic(several)
    async with asyncio.TaskGroup() as group:
        group.create_task(after.ask())
        await after.answered(5)
        after.stop.set()
    assert {answer.generation for answer in after.answers} == {"g1"}


async def _quiet(freki: Freki, traffic: Traffic) -> None:
    """Wait until both generations have the last version of every document."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            first, second = await rows_of(freki, "g1"), await rows_of(freki, "g2")
            versions = traffic.versions.items()
            if all(each.get(name, (0,))[0] == version for name, version in versions for each in (first, second)):
                return
            await asyncio.sleep(0.2)


def _check(answers: Sequence[ContextResult], held: Mapping[str, Held], switches: Sequence[tuple[int, int]]) -> None:
    (_, second_from), (second_until, first_from), (first_until, again_from) = switches
    assert len(answers) >= ANSWERS
    assert {answer.status for answer in answers} <= {ResultStatus.COMPLETE, ResultStatus.DEGRADED}
    for answer in answers:
        # A query that a killed worker had waits for the next one, which may be of the next switch.
        asked, answered = answer.asked_at, answer.answered_at
        chunks = held[answer.generation]
        strangers = [
            hit
            for hit in answer.hits
            if hit.document_id.startswith("s") and hit.chunk_id not in chunks[hit.document_id][2]
        ]
        assert answer.hits
        assert not strangers, "answered from two generations"
        if second_from < asked < answered < second_until or asked > again_from:
            assert answer.generation == "g2"
        if first_from < asked < answered < first_until:
            assert answer.generation == "g1"
    assert {answer.generation for answer in answers} == {"g1", "g2"}
