"""Two owners and three versions of one document with shared chunks: their calls of the store in many orders."""

from collections.abc import Sequence

import pytest

from freki.schemas import ContextualChunkBatch
from tests.unit.interleavings import Jobs, Requested, explore
from tests.unit.revisions import World, revision

SWITCHES = 2
"""Most interruptions of owners in a schedule."""
BEFORE = revision("a", 1, ["c", "u"])


def v(version: int, texts: Sequence[str] | None) -> list[ContextualChunkBatch]:
    return revision("a", version, texts)


def anew(version: int, texts: Sequence[str], edition: int, *, chunker: str = "c2") -> Requested:
    """Ask for a version anew, by rules that cut the same content otherwise."""
    content = {1: "c|u"}[version]
    return Requested(revision("a", version, texts, content_hash=content, chunker=chunker), edition)


CASES: dict[str, tuple[Sequence[Jobs], list[str] | None]] = {
    "edit beside edit and undo": ([[v(2, ["u"])], [v(2, ["u"]), v(3, ["c", "u"])]], ["c", "u"]),
    "edit beside undo taken together": ([[v(2, ["u"])], [v(3, ["c", "u"])]], ["c", "u"]),
    "edit beside deletion": ([[v(2, ["c", "x"])], [v(3, None)]], None),
    "deletion beside what follows it": ([[v(2, None)], [v(3, ["c", "u"])]], ["c", "u"]),
    "deletion twice beside what follows it": ([[v(2, None)], [v(2, None), v(3, ["c"])]], ["c"]),
    "edit beside deletion and what follows it": ([[v(2, ["u"])], [v(3, None), v(4, ["c", "u"])]], ["c", "u"]),
    "the same edit twice": ([[v(2, ["c"])], [v(2, ["c"])]], ["c"]),
    "reindexed beside edit and undo": ([[anew(1, ["c", "u2"], 7)], [v(2, ["u"]), v(3, ["c", "u"])]], ["c", "u"]),
    "reindexed beside deletion": ([[anew(1, ["c", "u2"], 7)], [v(1, None)]], None),
    "reindexed beside the later request": ([[anew(1, ["c", "u2"], 7)], [anew(1, ["c2", "u"], 8)]], ["c2", "u"]),
    "the same request twice": ([[anew(1, ["c", "u2"], 7)], [anew(1, ["c", "u2"], 7)]], ["c", "u2"]),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("clocks", [(5000, 6000), (6000, 5000)], ids=["one later", "the other later"])
@pytest.mark.parametrize("case", CASES)
async def test_no_order_of_calls_makes_a_hole_or_goes_back(case: str, clocks: tuple[int, int]) -> None:
    jobs, expected = CASES[case]

    async def ended(world: World) -> None:
        assert await world.texts("a") == expected

    assert await explore(BEFORE, jobs, clocks, switches=SWITCHES, ended=ended) > 100
