"""What is embedded with a chunk of a table besides its own rows."""

from dataclasses import replace

from freki.operators.breadcrumb import context_key
from freki.schemas import ChunkBatch, ContextualChunk, Definition
from freki.streams.ingest.contextualise import contextualise
from tests.unit.revisions import revision


def continued(*headers: str, definitions: tuple[Definition, ...] = ()) -> list[ContextualChunk]:
    """Contextualise a chunk `Ausweis | 37 EUR` below each header."""
    parts = revision("gebuehren", 1, [f"Ausweis | 37 EUR | {number}" for number, _ in enumerate(headers)])
    chunks = [row.chunk for part in parts for row in part.chunks]
    batch = ChunkBatch(
        revision=parts[0].revision,
        part=0,
        parts=1,
        chunks=tuple(replace(chunk, header=header) for chunk, header in zip(chunks, headers, strict=True)),
        definitions=definitions,
    )
    return list(contextualise(batch).chunks)


def test_the_header_of_a_table_is_part_of_the_context_and_of_its_key() -> None:
    (row,) = continued("Leistung | Betrag")

    assert row.context == "gebuehren\nLeistung | Betrag"
    assert row.context_key == context_key("Leistung | Betrag")
    assert row.chunk.text == "Ausweis | 37 EUR | 0"


def test_another_header_is_another_key_so_that_the_chunk_is_embedded_anew() -> None:
    rows = continued("Leistung | Betrag", "Was | Wieviel", "", definitions=(Definition(short="EUR", long="Euro"),))

    assert [row.context.splitlines()[1:] for row in rows] == [
        ["EUR = Euro", "Leistung | Betrag"],
        ["EUR = Euro", "Was | Wieviel"],
        ["EUR = Euro"],
    ]
    assert len({row.context_key for row in rows}) == 3
