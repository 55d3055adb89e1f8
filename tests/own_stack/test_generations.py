"""Another index takes over while changes and queries go on, and workers are killed at every step."""

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from freki.infra.local.children import RestartPolicy
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import environment_for, settings_for
from freki.infra.settings import Settings
from freki.schemas import ContextResult, DocumentChange, ResultStatus
from freki.streams.wire.connect import open_asker, open_index, open_publisher, open_receipts
from freki.streams.wire.from_settings import settings_named, wall_clock
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import ONE_WORKER, Children, Freki
from tests.acceptance.helpers import PATIENCE_S, ask, delete, publish, query, upsert

TENANT = "generations"
STABLE = 12
EDITED = 6
WORKERS = (("chunk", "contextualise"), ("embed",), ("embed",), ("retrieve",), ("retrieve",))
OTHER_CHUNKS = {"FREKI_CHUNKING__MIN_TOKENS": "16", "FREKI_CHUNKING__MAX_TOKENS": "48"}
DEADLINE_MS = 60_000


def text_of(name: str, version: int) -> str:
    drawn = random.Random(f"{name} {version}")  # noqa: S311
    return "\n\n".join(
        f"Vorgang {name}-{place} in Fassung {version}: Der Antrag auf Reisekosten Nummer {drawn.randrange(9_999)}"
        f" wurde geprüft. Die zuständige Stelle hat innerhalb von {drawn.randrange(90)} Tagen zu entscheiden und ihn"
        f" schriftlich zu begründen. Gegen ihn kann Widerspruch erhoben werden, über den die Leitung befindet."
        for place in range(6)
    )


def stable_documents() -> list[DocumentChange]:
    return [upsert(TENANT, f"s{number}", text_of(f"s{number}", 1), name=f"s{number}.txt") for number in range(STABLE)]


Held = Mapping[str, tuple[int, bool, frozenset[str]]]
"""Version of each document, whether it is deleted, and its chunks."""


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
                asked = query(TENANT, text, deadline_ms=DEADLINE_MS)
                self.answers.append(await asker.ask(asked, patience_s=PATIENCE_S))
                self.arrived.set()
                await asyncio.sleep(0.1)

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


@asynccontextmanager
async def running(tmp_path: Path, workers: Sequence[Sequence[str]]) -> AsyncIterator[Freki]:
    children = Children()
    settings = Settings(local=Settings().local.elsewhere(tmp_path / "state"))
    quick = RestartPolicy(first_s=0.05, longest_s=0.2)
    stack = LocalStack(settings, report=children.report, prepare=apply_topics, workers=workers, restart=quick)
    async with stack:
        yield Freki(settings_for(settings, stack.state), children, stack.state)


@pytest.fixture
async def several(tmp_path: Path) -> AsyncIterator[Freki]:
    async with running(tmp_path, WORKERS) as freki:
        yield freki


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Freki]:
    async with running(tmp_path, ONE_WORKER) as freki:
        yield freki


async def command(freki: Freki, *arguments: str) -> asyncio.subprocess.Process:
    assert freki.state is not None
    environment = {**os.environ, **environment_for(freki.settings, freki.state), **OTHER_CHUNKS}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "generations", *arguments),
        env={**environment, "FREKI_LOCAL__STATE_DIR": str(freki.state.directory), "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )


async def said(freki: Freki, *arguments: str, code: int = 0) -> str:
    process = await command(freki, *arguments)
    output, _ = await process.communicate()
    assert process.returncode == code, output.decode()
    return output.decode()


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


async def rows_of(freki: Freki, generation: str) -> Held:
    """Read what a generation holds."""
    async with open_index(settings_named(freki.settings, generation)) as index:
        roots = [root async for root in index.all_roots() if root.tenant == TENANT]
        pages = await index.pages([page for root in roots for page in root.pages])
    return {
        root.document_id: (
            root.version,
            root.deleted,
            frozenset(entry.chunk_id for page in root.pages for entry in pages[page].entries),
        )
        for root in roots
    }


@pytest.mark.timeout(600)
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


@pytest.mark.timeout(600)
async def test_a_generation_is_filled_once_and_compared_by_questions_with_known_answers(
    own: Freki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREKI_TENANT", TENANT)
    await publish(own, *stable_documents())
    questions = [f"Was wurde im Vorgang s{number}-0 zu den Reisekosten entschieden?" for number in range(STABLE)]
    gold = tmp_path / "gold.yaml"
    gold.write_text(
        json.dumps([{"question": text, "expected_documents": [f"s{at}"]} for at, text in enumerate(questions)]),
        encoding="utf-8",
    )

    # It ends by itself, and a second time there is nothing to do.
    created = [await said(own, "create", "g2", "--once") for _ in range(2)]
    first, second = await rows_of(own, "g1"), await rows_of(own, "g2")
    judged = await said(own, "compare", "g1", "g2", "--set", str(gold))
    sampled = await said(own, "compare", "g1", "g2", "--set", str(gold), "--queries", "4")
    unasked = await said(own, "compare", "g1", "g2", "--share", "1", code=1)
    for text in questions:
        await ask(own, TENANT, text)
    whole, half = [await said(own, "compare", "g1", "g2", "--share", share) for share in ("1", "0.5")]
    both = await said(own, "compare", "g1", "g2", "--set", str(gold), "--share", "0.5", code=2)

    assert all(f"g2 holds {STABLE} documents" in output for output in created)
    assert {name: each[:2] for name, each in first.items()} == {name: each[:2] for name, each in second.items()}
    assert all(first[name][2] != second[name][2] for name in first)
    # Each question names its document, which both generations find near the top.
    first_mean, second_mean, difference, p_value = map(float, row(judged, "nDCG@10"))
    assert min(first_mean, second_mean) > 0.8
    assert difference == pytest.approx(second_mean - first_mean, abs=2e-4)
    assert 0.0 < p_value <= 1.0
    assert row(judged, "questions") == [str(STABLE), str(STABLE)]
    assert row(sampled, "questions") == ["4", "4"]
    assert "larger --share" in unasked
    assert row(whole, "questions") == [str(STABLE), str(STABLE)]
    assert 0 < int(row(half, "questions")[0]) < STABLE
    assert not any(line.startswith("nDCG") for line in half.splitlines()), "nobody judged these"
    assert "leave out --recorded and --share" in both


@pytest.mark.timeout(600)
async def test_what_fills_a_generation_can_be_started_again_after_the_switch(own: Freki) -> None:
    await publish(own, *stable_documents())
    await said(own, "create", "g2", "--once")
    await said(own, "switch", "g2")

    assert f"g2 holds {STABLE} documents" in await said(own, "create", "g2", "--once")

    await said(own, "switch", "g1")
    assert "the workers keep it up to date" in await said(own, "create", "g1", "--once", code=1)


def row(printed: str, title: str) -> list[str]:
    """Return the cells of a row of a printed table."""
    rows = ([cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines())
    (cells,) = (cells for cells in rows if cells[:1] == [title])
    return [cell for cell in cells[1:] if cell]


async def _quiet(freki: Freki, traffic: Traffic) -> None:
    """Wait until both generations have the last version of every document."""
    for _ in range(200):
        first, second = await rows_of(freki, "g1"), await rows_of(freki, "g2")
        versions = traffic.versions.items()
        if all(each.get(name, (0,))[0] == version for name, version in versions for each in (first, second)):
            return
        await asyncio.sleep(0.2)
    raise AssertionError("a generation lacks changes")


def _check(answers: Sequence[ContextResult], held: Mapping[str, Held], switches: Sequence[tuple[int, int]]) -> None:
    (_, second_from), (second_until, first_from), (first_until, again_from) = switches
    assert len(answers) > 100
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
