"""Another index is filled once, compared and filled again."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from freki.infra.local.state import locked_generation
from tests.acceptance.conftest import ONE_WORKER, Freki
from tests.acceptance.helpers import ask, publish
from tests.own_stack.generations import STABLE, TENANT, command, rows_of, running, said, stable_documents


@pytest.fixture(scope="module")
async def own(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Freki]:
    async with running(tmp_path_factory.mktemp("own"), ONE_WORKER) as freki:
        await publish(freki, *stable_documents())
        yield freki


async def test_a_generation_is_filled_once_and_compared_by_questions_with_known_answers(
    own: Freki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREKI_TENANT", TENANT)
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


async def test_what_fills_a_generation_can_be_started_again_after_the_switch(own: Freki) -> None:
    await said(own, "create", "g3", "--once")
    await said(own, "switch", "g3")

    assert f"g3 holds {STABLE} documents" in await said(own, "create", "g3", "--once")

    await said(own, "switch", "g1")
    assert "the workers keep it up to date" in await said(own, "create", "g1", "--once", code=1)


async def test_of_two_that_fill_one_generation_at_once_the_second_is_told(own: Freki) -> None:
    filling = await command(own, "create", "g4")
    assert filling.stdout is not None
    async for line in filling.stdout:
        if b"g4 holds" in line:
            break

    assert "g4 is being filled or removed already" in await said(own, "create", "g4", "--once", code=1)

    filling.send_signal(signal.SIGINT)
    await filling.wait()
    both = [await command(own, "create", "g5", "--once") for _ in range(2)]
    outputs = [(await each.communicate())[0].decode() for each in both]
    assert sorted(each.returncode or 0 for each in both) == [0, 1], outputs
    assert sum("g5 is being filled or removed already" in output for output in outputs) == 1


async def test_a_generation_that_begins_to_be_filled_is_not_removed(own: Freki) -> None:
    await said(own, "create", "g6", "--once")
    assert own.state is not None

    # As a command that fills it does from its start on, long before its worker reads.
    async with locked_generation(own.state.directory / "run", "g6"):
        assert "g6 is being filled or removed already" in await said(own, "drop", "g6", "--yes", code=1)

    assert f"g6 holds {STABLE} documents" in await said(own, "create", "g6", "--once")
    assert "removed g6" in await said(own, "drop", "g6", "--yes")


def row(printed: str, title: str) -> list[str]:
    """Return the cells of a row of a printed table."""
    rows = ([cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines())
    (cells,) = (cells for cells in rows if cells[:1] == [title])
    return [cell for cell in cells[1:] if cell]
