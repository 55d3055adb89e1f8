"""How `freki ask --explain` tells why hits stand where they stand."""

from io import StringIO

import pytest
from rich.console import Console

from freki.cli.show_explanation import show_explanation
from freki.schemas import ContextResult
from tests.unit.questions import ask, retriever
from tests.unit.revisions import World, revision


async def explained() -> ContextResult:
    world = World()
    for number in range(3):
        await world.feed(revision(f"handbook/a-long-name-of-a-document-{number}", 7 + number, ["alpha beta gamma"]))
    return await ask(retriever(world), "alpha", explain=True)


@pytest.mark.parametrize("width", [40, 80, 200])
async def test_each_hit_has_all_its_places_at_any_width(width: int) -> None:
    result = await explained()
    assert result.explanation is not None
    file = StringIO()
    show_explanation(Console(file=file, width=width), result)

    text = " ".join(file.getvalue().split())
    assert "…" not in text
    for story in result.explanation.hits:
        assert all(step.step in text and f"{step.rank}/{step.of}" in text for step in story.ranks)
    assert {"dense", "BM25"} <= set(text.split())
