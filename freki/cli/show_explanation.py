"""How it looks in a terminal why hits stand where they stand."""

from collections.abc import Mapping
from itertools import pairwise

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from freki.schemas import ChunkId, ChunkStory, ContextHit, ContextResult, ExpectedDocument, Explanation, StepRank

SEARCHES = {"dense": "dense", "bm25": "BM25"}
HEADING_CHARACTERS = 40
_TITLE = "place after each step, of how many; ▲ ▼ against the step before"
_WIDEST = 1_000
"""Columns that any table fits into."""


def show_explanation(console: Console, result: ContextResult) -> None:
    """Print a table of where each hit stood after each step, then what became of documents that were expected."""
    explanation = result.explanation
    if explanation is None:
        return
    if explanation.hits:
        hits = {hit.chunk_id: hit for hit in result.hits}
        table = _table(explanation, hits)
        # Cut places would say something else.
        fits = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum <= console.width - 4
        console.print(Padding(table if fits else _lines(explanation, hits), (1, 2, 0, 2)))
        for place, variant in enumerate(result.variants[1:], start=1):
            console.print(Padding(Text(f"({place}) found by searching for: {variant}", style="dim"), (0, 2)))
    for expected in explanation.expected:
        console.print(Padding(_expected(expected), (0, 2)))


def _table(explanation: Explanation, hits: Mapping[ChunkId, ContextHit]) -> Table:
    steps = [rank.step for rank in explanation.hits[0].ranks]
    table = Table(
        title=_TITLE,
        title_justify="left",
        title_style="dim",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for name in ("", "hit", *SEARCHES.values(), *steps):
        table.add_column(name, justify="left" if name in {"", "hit"} else "right", no_wrap=True)
    for place, story in enumerate(explanation.hits, start=1):
        moves = _moves(story)
        shown = _shown(hits[story.chunk_id]) if story.chunk_id in hits else story.document_id
        searches = [_retrieved(story, search) for search in SEARCHES]
        table.add_row(str(place), Text(shown), *searches, *(moves.get(step, Text("–")) for step in steps))
    return table


def _lines(explanation: Explanation, hits: Mapping[ChunkId, ContextHit]) -> Group:
    """Say what the table says, for a terminal that is too narrow for it."""
    lines = [Text(_TITLE, style="dim")]
    for place, story in enumerate(explanation.hits, start=1):
        shown = _shown(hits[story.chunk_id]) if story.chunk_id in hits else story.document_id
        searches = (Text.assemble(f"{name} ", _retrieved(story, search)) for search, name in SEARCHES.items())
        steps = (Text.assemble(f"{step} ", move) for step, move in _moves(story).items())
        lines.append(Text.assemble(f"{place}  ", (shown, "bold"), "\n", Text(" · ").join([*searches, *steps])))
    return Group(*lines)


def _shown(hit: ContextHit) -> str:
    heading = next((heading for heading in reversed(hit.heading_path) if heading), hit.name)
    return heading if len(heading) <= HEADING_CHARACTERS else heading[: HEADING_CHARACTERS - 1] + "…"


def _retrieved(story: ChunkStory, search: str) -> Text:
    """Give the best place that a search gave, its score, and which variant that was unless it is the query."""
    found = [each for each in story.retrieved if each.search == search]
    if not found:
        return Text("–", style="dim")
    best = min(found, key=lambda each: (each.rank, each.variant))
    return Text.assemble(
        f"{best.rank}", (f" {best.score:.3g}", "dim"), (f" ({best.variant})" if best.variant else "", "cyan")
    )


def _moves(story: ChunkStory) -> dict[str, Text]:
    moves = {rank.step: Text(f"{rank.rank}/{rank.of}") for rank in story.ranks[:1]}
    for before, after in pairwise(story.ranks):
        moves[after.step] = _move(before, after)
    if "rerank" in moves and story.rerank_score is not None:
        moves["rerank"].append(f" {story.rerank_score:.3f}", style="dim")
    return moves


def _move(before: StepRank, after: StepRank) -> Text:
    sign, style = ("▲", "green") if after.rank < before.rank else ("▼", "red") if after.rank > before.rank else ("", "")
    return Text.assemble((sign, style), f"{after.rank}/{after.of}")


def _expected(expected: ExpectedDocument) -> Text:
    if expected.lost_at is None:
        return Text.assemble(("✓ ", "green"), (expected.document_id, "bold"), f": {expected.reason}")
    said = Text.assemble(
        ("✗ ", "red"), (expected.document_id, "bold"), " lost at ", (expected.lost_at, "yellow"), f": {expected.reason}"
    )
    if expected.best is not None:
        searches = (
            f"{SEARCHES[each.search]} {each.rank} ({each.score:.3g})"
            for each in sorted(expected.best.retrieved, key=lambda each: each.rank)[:3]
        )
        steps = (f"{rank.step} {rank.rank}/{rank.of}" for rank in expected.best.ranks)
        said.append(f"\n  its best chunk: {' · '.join((*searches, *steps))}", style="dim")
    return said
