"""What `freki documents show` prints of a document."""

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from freki.cli.show_document import show_document, show_list
from freki.schemas import ChunkCounts, ChunkId, DocumentChunk
from freki.streams.documents.listing import Page
from freki.streams.documents.view import DocumentView
from freki.streams.wire.cases import Cases
from tests.contract.index_records import root

CHUNK = DocumentChunk(
    chunk_id=ChunkId("c"),
    path="0/1",
    ordinal=0,
    start=0,
    end=27,
    first_page=0,
    last_page=0,
    kind="TEXT",
    heading_path=("Abgaben", "Fristen"),
    tokens=6,
    context="",
    text="Die Frist endet im März.",
)


def printed(chunk: DocumentChunk, **changes: Any) -> list[str]:
    """Return the lines about the chunks of a document with one."""
    counts = ChunkCounts(kinds={"TEXT": 1}, explained=0, written=0, missing=0)
    document = root("r", chunks=1, **changes)
    view = DocumentView(root=document, chunks=(chunk,), places=(0,), end=1, total=1, counts=counts)
    console = Console(file=io.StringIO(), width=200)
    show_document(console, view, (), is_current=True, cases=Cases(holds={}, objections={}))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    (first,) = (place for place, line in enumerate(lines) if line.split()[:2] == ["chunk", "kind"])
    return [line.strip() for line in lines[first + 1 :] if not line.startswith("receipts")]


def test_below_a_chunk_stands_what_its_context_says_beyond_its_place() -> None:
    context = "Abgaben > Fristen\nAO: Abgabenordnung\nDer Abschnitt nennt die Fristen der Abgabenordnung."

    lines = printed(with_context(context), name="Abgaben")

    assert lines[0].endswith("Fristen: Die Frist endet im März.")
    assert lines[1:] == ["AO: Abgabenordnung", "Der Abschnitt nennt die Fristen der Abgabenordnung."]


def test_a_context_without_a_place_is_shown_whole() -> None:
    lines = printed(with_context("Sie gilt für alle Ämter.", heading_path=()), name="")

    assert lines[1:] == ["Sie gilt für alle Ämter."]


def test_a_context_of_a_place_alone_adds_no_line() -> None:
    assert len(printed(with_context("Abgaben > Fristen"), name="Abgaben")) == 1


def with_context(context: str, **changes: Any) -> DocumentChunk:
    """Return the chunk with a context."""
    return replace(CHUNK, context=context, **changes)


def test_no_id_and_no_version_of_a_list_is_cut_in_a_narrow_terminal() -> None:
    documents = [root(f"handbook/{'long/' * 5}{number}.md", version=1_795_792_189_177) for number in range(2)]
    page = Page(roots=tuple(documents), total=2, left=2)
    console = Console(file=io.StringIO(), width=80)
    show_list(console, page, tenant="t", current=(), cases=Cases(holds={}, objections={}))

    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "…" not in "".join(lines)
    assert sum("1795792189177" in line.split() for line in lines) == 2
