"""A chunk is placed by one short line."""

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.situate import situate
from freki.schemas import Chunk, ChunkId, ChunkKind


def _chunk(*heading_path: str) -> Chunk:
    return Chunk(
        chunk_id=ChunkId("0" * 32),
        level=2,
        path="0/1",
        ordinal=1,
        start=0,
        end=4,
        kind=ChunkKind.PROSE,
        heading_path=heading_path,
        text="Text",
        overlap="",
        tokens=1,
    )


def test_the_name_leads_and_the_headings_follow() -> None:
    context = situate("BGB", _chunk("Buch 2", "Mietvertrag", "§ 535 Inhalt"))

    assert context == "BGB > Buch 2 > Mietvertrag > § 535 Inhalt"


def test_a_chunk_without_headings_has_the_name_alone() -> None:
    assert situate("Lebenslauf\n Kühne", _chunk()) == "Lebenslauf Kühne"


def test_a_heading_that_the_name_begins_with_is_not_said_twice() -> None:
    assert situate("Handbuch der Fähre", _chunk("Handbuch", "Handbuch")) == "Handbuch der Fähre > Handbuch"
    assert situate("Handbuch", _chunk("Handbuch", "Wartung")) == "Handbuch > Wartung"


def test_outer_headings_give_way_to_inner_ones() -> None:
    context = situate("BGB", _chunk("Buch", "T" * 150, "U" * 60, "§ 535"))

    assert context == "BGB > … > " + "U" * 60 + " > § 535"


def test_an_endless_innermost_heading_is_cut() -> None:
    context = situate("BGB", _chunk("Buch", "§" * 500))

    assert context.startswith("BGB > … > §§§")
    assert context.endswith("§…")
    assert len(context) == 200


@given(name=st.text(), headings=st.lists(st.text(max_size=250)))
def test_a_context_is_one_line_of_at_most_200_characters(name: str, headings: list[str]) -> None:
    context = situate(name, _chunk(*(" ".join(heading.split()) for heading in headings)))

    assert len(context) <= 200
    assert context == " ".join(context.split()) or not context.strip()
