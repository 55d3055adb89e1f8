from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.augment import (
    SectionWindow,
    document_around,
    leaf_gaps,
    neighbour_parts,
    neighbours_of,
    section_around,
    section_part,
)
from freki.schemas import ChunkId
from freki.schemas.index import ManifestEntry, Passage, RowId

DOCUMENT = "Eins.\n\nZwei. Drei.\n\n## Titel\n\nVier.\nFünf."


def entry(chunk_id: str, path: str, start: int, end: int, ordinal: int = 0) -> ManifestEntry:
    return ManifestEntry(
        chunk_id=ChunkId(chunk_id), row_id=RowId(chunk_id), path=path, ordinal=ordinal, start=start, end=end, overlap=""
    )


def passage(text: str, heading: str = "") -> Passage:
    return Passage(text=text, heading_path=(heading,) if heading else ())


def span(text: str) -> tuple[int, int]:
    start = DOCUMENT.index(text)
    return start, start + len(text)


MANIFEST = [
    entry("all", "0", 0, len(DOCUMENT)),
    entry("A", "0/0", 0, span("Drei.")[1]),
    entry("1", "0/0/0", *span("Eins.")),
    entry("2", "0/0/1", *span("Zwei.")),
    entry("3", "0/0/2", *span("Drei.")),
    entry("B", "0/1", span("Vier.")[0], len(DOCUMENT)),
    entry("4", "0/1/0", *span("Vier.")),
    entry("5", "0/1/1", *span("Fünf.")),
    entry("C", "0/2", len(DOCUMENT), len(DOCUMENT) + 5),
]
PASSAGES = {each.chunk_id: Passage(text=DOCUMENT[each.start : each.end]) for each in MANIFEST}


def ids(entries: tuple[ManifestEntry, ...]) -> str:
    return "".join(each.chunk_id for each in entries)


def section_ids(chunk_id: str, max_characters: int = 4000) -> str | None:
    section = section_around(MANIFEST, ChunkId(chunk_id), max_characters=max_characters)
    return section and ids(section.entries)


def test_a_paragraph_gets_its_section() -> None:
    section = section_around(MANIFEST, ChunkId("2"))

    assert section is not None
    assert (section.path, ids(section.entries)) == ("0/0", "123")


def test_a_summary_gets_what_it_sums_up() -> None:
    assert section_ids("B") == "45"
    assert section_ids("all") == "12345C"


def test_a_section_that_is_one_chunk_has_nothing_around_it() -> None:
    assert section_ids("C") is None


@pytest.mark.parametrize(("room", "shown"), [(5, None), (11, "23"), (12, "23"), (18, "123")])
def test_a_long_section_is_cut_around_the_hit(room: int, shown: str | None) -> None:
    assert section_ids("2", room) == shown


@pytest.mark.parametrize(
    ("chunk_id", "count", "before", "after"),
    [
        ("2", 1, "1", "3"),
        ("3", 1, "2", "4"),
        ("3", 2, "12", "45"),
        ("1", 2, "", "23"),
        ("4", 2, "23", "5"),
        ("5", 1, "4", "C"),
        ("5", 3, "4", "C"),
        ("C", 1, "5", ""),
        ("2", 0, "", ""),
        ("B", 2, "", ""),
    ],
)
def test_neighbours_leave_the_section_only_at_its_border(chunk_id: str, count: int, before: str, after: str) -> None:
    neighbours = neighbours_of(MANIFEST, ChunkId(chunk_id), count=count)

    assert (ids(neighbours.before), ids(neighbours.after)) == (before, after)


def test_a_section_keeps_the_places_of_its_characters() -> None:
    section = section_around(MANIFEST, ChunkId("all"))
    assert section is not None

    part = section_part(section, PASSAGES)

    assert part is not None
    assert part.chunk_id is None
    for chunk_id in "12345":
        start, end = span(PASSAGES[ChunkId(chunk_id)].text)
        assert part.text[start - part.start : end - part.start] == DOCUMENT[start:end]
    assert part.text.split() == ["Eins.", "Zwei.", "Drei.", "Vier.", "Fünf."]
    assert len(part.text) == part.end - part.start


def test_what_is_missing_is_blank() -> None:
    section = section_around(MANIFEST, ChunkId("2"))
    assert section is not None

    part = section_part(section, {ChunkId("1"): passage("Eins."), ChunkId("2"): passage("zu lang für den Platz")})

    assert part is not None
    assert part.text == "Eins.\n" + " " * (part.end - part.start - 7) + "\n"
    assert section_part(section, {}) is None


def test_neighbours_become_parts() -> None:
    neighbours = neighbours_of(MANIFEST, ChunkId("2"))

    (part,) = neighbour_parts((*neighbours.before, *neighbours.after), {ChunkId("3"): passage("Drei.")})

    assert (part.chunk_id, part.path, part.start, part.end, part.text) == ("3", "0/0/2", *span("Drei."), "Drei.")


def test_a_hit_must_be_in_the_manifest() -> None:
    with pytest.raises(KeyError):
        section_around(MANIFEST, ChunkId("gone"))
    with pytest.raises(KeyError):
        neighbours_of(MANIFEST, ChunkId("gone"))
    with pytest.raises(ValueError, match="count"):
        neighbours_of(MANIFEST, ChunkId("1"), count=-1)


@st.composite
def manifests(draw: st.DrawFn) -> list[ManifestEntry]:
    entries, at = [entry("d", "0", 0, 0)], 0
    for section, size in enumerate(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))):
        entries.append(entry(f"s{section}", f"0/{section}", at, at + (0 if size else 9)))
        for leaf in range(size):
            at += draw(st.integers(0, 5))
            length = draw(st.integers(1, 20))
            entries.append(entry(f"s{section}.{leaf}", f"0/{section}/{leaf}", at, at + length))
            at += length
        at += 0 if size else 9
    return entries


@given(manifest=manifests(), data=st.data(), count=st.integers(0, 3), max_characters=st.integers(1, 60))
def test_what_stands_around_a_hit_is_in_order_and_in_bounds(
    manifest: list[ManifestEntry], data: st.DataObject, count: int, max_characters: int
) -> None:
    hit = data.draw(st.sampled_from(manifest))

    neighbours = neighbours_of(manifest, hit.chunk_id, count=count)
    section = section_around(manifest, hit.chunk_id, max_characters=max_characters)

    assert max(len(neighbours.before), len(neighbours.after)) <= count
    assert all(each.end <= hit.start for each in neighbours.before)
    assert all(each.start >= hit.end for each in neighbours.after)
    if section is not None:
        places = [manifest.index(each) for each in section.entries]
        assert places == sorted(places)
        assert len(places) == 1 or section.entries[-1].end - section.entries[0].start <= max_characters
        assert hit in section.entries or any(each.path.startswith(hit.path) for each in section.entries)
        part = section_part(
            section, {each.chunk_id: passage("x" * (each.end - each.start)) for each in section.entries}
        )
        assert part is not None
        assert len(part.text) == part.end - part.start


def test_a_document_is_shown_around_the_hit_as_far_as_it_fits() -> None:
    whole = document_around(MANIFEST, ChunkId("2"))
    three = document_around(MANIFEST, ChunkId("2"), max_leaves=3)
    short = document_around(MANIFEST, ChunkId("2"), max_characters=11)

    assert whole is not None
    assert (ids(whole.entries), whole.path) == ("12345C", "0")
    assert three is not None
    assert ids(three.entries) == "123"
    assert short is not None
    assert ids(short.entries) == "23"


def test_a_document_that_is_one_chunk_has_nothing_around_it() -> None:
    assert document_around([entry("1", "0/0", 0, 5)], ChunkId("1")) is None


@given(leaf=st.sampled_from("12345C"), most=st.integers(1, 9))
def test_what_is_shown_of_a_document_holds_the_hit_and_keeps_the_limit(leaf: str, most: int) -> None:
    shown = document_around(MANIFEST, ChunkId(leaf), max_leaves=most)

    if shown is not None:
        assert leaf in ids(shown.entries)
        assert len(shown.entries) <= most


def test_a_heading_between_leaves_is_shown_where_it_stood() -> None:
    around = document_around(MANIFEST, ChunkId("3"))
    assert around is not None
    passages = {key: passage(each.text, "Titel" if key in {"4", "5"} else "Anfang") for key, each in PASSAGES.items()}

    part = section_part(around, passages)

    assert part is not None
    assert part.text.index("Titel") < part.text.index("Vier.")
    assert part.text.count("Titel") == 1
    for key, each in PASSAGES.items():
        if key in {"1", "2", "3", "4", "5"}:
            start = span(each.text)[0] - part.start
            assert part.text[start : start + len(each.text)] == each.text


def outlined(
    source: str, *paths: tuple[str, str, tuple[str, ...]]
) -> tuple[list[ManifestEntry], dict[ChunkId, Passage]]:
    """Return manifest and texts of leaves, given as text, path and headings."""
    manifest = [entry("0", "0", 0, len(source))]
    passages: dict[ChunkId, Passage] = {}
    for text, path, headings in paths:
        start = source.index(text)
        manifest.append(entry(text, path, start, start + len(text), len(manifest)))
        passages[ChunkId(text)] = Passage(text=text, heading_path=headings)
    return manifest, passages


LEASE = "# Miete\n\n## Kaution\n\nDrei Monate.\n\n## Frist\n\n```\n# Tage\n```\n\n# Kauf\n\n## Frist\n\nSofort.\n"
LEASE_LEAVES = (
    ("Drei Monate.", "0/0/0", ("Miete", "Kaution")),
    ("```\n# Tage\n```", "0/0/1", ("Miete", "Frist")),
    ("Sofort.", "0/1", ("Kauf", "Frist")),
)


def shown_of(around: SectionWindow | None, passages: dict[ChunkId, Passage]) -> tuple[str, int]:
    """Return the text of a section and where it starts, after its characters were compared with the document."""
    assert around is not None
    part = section_part(around, passages)
    assert part is not None
    assert len(part.text) == part.end - part.start
    for each in around.entries:
        assert part.text[each.start - part.start : each.end - part.start] == passages[each.chunk_id].text
    return part.text, part.start


def test_a_section_begins_with_the_heading_of_its_first_lines() -> None:
    manifest, passages = outlined(LEASE, *LEASE_LEAVES)

    text, start = shown_of(section_around(manifest, ChunkId("```\n# Tage\n```")), passages)

    assert text.split() == ["Kaution", "Drei", "Monate.", "Frist", "```", "#", "Tage", "```"]
    assert text[: LEASE.index("Drei") - start].endswith("\n")
    assert start == 1


def test_a_heading_has_one_place_in_all_sections_that_show_it() -> None:
    # The text of two that overlap is joined by its places: at two places a heading would be written over itself.
    manifest, passages = outlined(LEASE, *LEASE_LEAVES)
    from_frist = LEASE.index("Sofort.") + len("Sofort.") - LEASE.index("\n\n## Frist")

    text, start = shown_of(document_around(manifest, ChunkId("Sofort.")), passages)
    later, later_start = shown_of(
        document_around(manifest, ChunkId("Sofort."), max_characters=from_frist, max_leaves=2), passages
    )

    assert later.split()[:2] == ["Frist", "```"]
    assert text[later_start - start :] == later


def test_the_heading_of_the_first_lines_is_within_the_limit_of_a_section() -> None:
    manifest, passages = outlined(LEASE, *LEASE_LEAVES)
    hit, leaves = ChunkId("Drei Monate."), LEASE.index("```\n\n# Kauf") + 3 - LEASE.index("Drei")

    text, _ = shown_of(section_around(manifest, hit, max_characters=leaves + len("Kaution")), passages)

    assert text.startswith("Drei")


def test_a_section_of_one_heading_does_not_repeat_it() -> None:
    manifest, passages = outlined(LEASE, *((text, path, ("Miete",)) for text, path, _ in LEASE_LEAVES))

    text, _ = shown_of(section_around(manifest, ChunkId("Drei Monate.")), passages)

    assert text.startswith("Drei")


def test_what_stands_before_the_given_part_of_a_document_is_not_written_over() -> None:
    manifest, passages = outlined(LEASE, *LEASE_LEAVES)

    text, _ = shown_of(section_around(manifest[1:], ChunkId("Drei Monate.")), passages)

    assert text.startswith("Drei")


def test_sections_of_the_same_name_in_other_sections_are_told_apart() -> None:
    manifest, passages = outlined(LEASE, *LEASE_LEAVES)

    text, _ = shown_of(document_around(manifest, ChunkId("Sofort.")), passages)

    assert text.split() == ["Kaution", "Drei", "Monate.", "Frist", "```", "#", "Tage", "```", "Frist", "Sofort."]


def test_gaps_are_between_leaves_that_follow_each_other() -> None:
    numbered = [replace(each, ordinal=ordinal) for ordinal, each in enumerate(MANIFEST)]
    ends = {
        number: span(text) for number, text in zip("12345", ["Eins.", "Zwei.", "Drei.", "Vier.", "Fünf."], strict=True)
    }

    gaps = leaf_gaps(numbered)
    incomplete = leaf_gaps([each for each in numbered if each.chunk_id != "3"])

    assert gaps == {(ends[one][1], ends[other][0]) for one, other in pairwise("12345")} | {(len(DOCUMENT),) * 2}
    assert gaps - incomplete == {(ends[one][1], ends[other][0]) for one, other in ("23", "34")}
    assert incomplete < gaps
