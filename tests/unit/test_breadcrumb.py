"""A chunk is placed by one short line."""

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.breadcrumb import (
    below_place,
    breadcrumb,
    context_key,
    joined,
    with_context,
    writer_of,
    written_by,
    written_in,
)
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
    context = breadcrumb("BGB", _chunk("Buch 2", "Mietvertrag", "§ 535 Inhalt"))

    assert context == "BGB > Buch 2 > Mietvertrag > § 535 Inhalt"


def test_a_chunk_without_headings_has_the_name_alone() -> None:
    assert breadcrumb("Lebenslauf\n Kühne", _chunk()) == "Lebenslauf Kühne"


def test_a_heading_that_the_name_begins_with_is_not_said_twice() -> None:
    assert breadcrumb("Handbuch der Fähre", _chunk("Handbuch", "Handbuch")) == "Handbuch der Fähre > Handbuch"
    assert breadcrumb("Handbuch", _chunk("Handbuch", "Wartung")) == "Handbuch > Wartung"


def test_a_heading_that_says_more_than_the_name_stands_for_it() -> None:
    assert breadcrumb("Gesetzbuch", _chunk("Gesetzbuch (GB)", "§ 1")) == "Gesetzbuch (GB) > § 1"


def test_a_long_name_keeps_the_abbreviation_at_its_end() -> None:
    context = breadcrumb("Gesetz über " + "vieles und " * 20 + "mehr (VieG)", _chunk("§ 1"))

    assert context.startswith("Gesetz über vieles und")
    assert context.endswith("… (VieG) > § 1")


def test_a_long_name_has_the_room_that_headings_leave() -> None:
    name = "Verwaltungsvorschrift " + "zur Durchführung " * 6 + "§ 5 Abs. 3"

    assert breadcrumb(name, _chunk()) == name
    assert breadcrumb(name, _chunk(name)) == name
    assert breadcrumb(name, _chunk(name, "T" * 90)) == f"{name[: 200 - 93 - 1].rstrip()}… > {'T' * 90}"
    assert breadcrumb(name, _chunk("U" * 60, "T" * 60)).startswith(name[:70])


def test_outer_headings_give_way_to_inner_ones() -> None:
    context = breadcrumb("BGB", _chunk("Buch", "T" * 150, "U" * 60, "§ 535"))

    assert context == "BGB > … > " + "U" * 60 + " > § 535"


def test_an_endless_innermost_heading_is_cut() -> None:
    context = breadcrumb("BGB", _chunk("Buch", "§" * 500))

    assert context.startswith("BGB > … > §§§")
    assert context.endswith("§…")
    assert len(context) == 200


@given(name=st.text(), headings=st.lists(st.text(max_size=250)))
def test_a_context_is_one_line_of_at_most_200_characters(name: str, headings: list[str]) -> None:
    context = breadcrumb(name, _chunk(*(" ".join(heading.split()) for heading in headings)))

    assert len(context) <= 200
    assert context == " ".join(context.split()) or not context.strip()


def test_a_text_stands_below_the_lines_that_place_it() -> None:
    assert with_context(joined("BGB > § 535", "AN = Auftragnehmer", "Es geht um die Miete."), "Text") == (
        "BGB > § 535\nAN = Auftragnehmer\nEs geht um die Miete.\nText"
    )
    assert with_context(joined("", "", ""), "Text") == "Text"


lines = st.text().map(lambda text: " ".join(text.split()))
digests = st.text(alphabet="0123456789abcdef", min_size=1)


@given(place=lines, explained=lines, written=lines.filter(bool), writer=digests)
def test_what_a_model_wrote_can_be_told_from_the_rest(place: str, explained: str, written: str, writer: str) -> None:
    context = joined(joined(place, explained, ""), "", written)
    key = written_by(context_key(explained), writer)

    assert written_in(context) == written
    assert writer_of(key) == writer
    assert key != context_key(explained)
    assert writer_of(context_key(explained)) == ""


words = st.text(alphabet="ab ", max_size=9)


@given(name=words, headings=st.lists(words.map(str.strip)), below=st.lists(st.text("ab", min_size=1), max_size=3))
def test_what_stands_below_the_place_can_be_told_from_it(name: str, headings: list[str], below: list[str]) -> None:
    context = joined(breadcrumb(name, _chunk(*headings)), "\n".join(below), "")

    assert below_place(context, name=name, headings=headings) == below


def test_only_what_is_beyond_the_place_changes_the_key() -> None:
    assert context_key("") == ""
    assert context_key("AN = Auftragnehmer") != context_key("AN = Anwalt")
    assert len(written_by(context_key("AN = Auftragnehmer"), "0" * 16)) <= 25
