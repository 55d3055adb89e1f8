"""A document becomes leaves that tile it, and extracts that stand for what is longer."""

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import assume, example, given
from hypothesis import strategies as st

from freki.operators.chunk import ChunkLimits, chunk_document, chunker_fingerprint
from freki.operators.chunk.extract import MAX_CHARS
from freki.operators.identify import chunk_id
from freki.operators.parse_code import parse_code
from freki.operators.parse_html import parse_html
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_rst import parse_rst
from freki.operators.parse_text import parse_text
from freki.schemas import Chunk, ChunkKind, DocumentId, TenantId
from freki.schemas.outline import Block, BlockKind, ParsedDocument, Part, assemble

STREAMS = Path(__file__).parents[3] / "shared" / "data" / "streams"
LIMITS = ChunkLimits(min_tokens=30, max_tokens=256, max_chars=1200, overlap_chars=150)
SMALL = ChunkLimits(min_tokens=4, max_tokens=12, max_chars=60, overlap_chars=20)
NARROW = ChunkLimits(min_tokens=12, max_tokens=12, max_chars=60, overlap_chars=59, min_chars=60)
PARSERS = [parse_markdown, parse_rst, parse_html, parse_text, parse_code]

_TOKEN = re.compile(r"\w{1,5}|[^\w\s]")


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Count pieces of at most five letters: additive over parts that end at white space, as real counters are."""
    return [len(_TOKEN.findall(text)) for text in texts]


def chunked(document: ParsedDocument, limits: ChunkLimits = LIMITS) -> list[Chunk]:
    identify = partial(chunk_id, TenantId("acme"), DocumentId("document"))
    return chunk_document(document, identify=identify, count_tokens=count_tokens, limits=limits)


def leaves(chunks: Sequence[Chunk]) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.kind is not ChunkKind.SUMMARY]


def is_of_section(document: ParsedDocument, leaf: Chunk) -> bool:
    """Return whether an overlap is the end of the text before the leaf, with no heading in or behind it."""
    end = len(document.text[: leaf.start].rstrip())
    start = end - len(leaf.overlap)
    headings = [block for block in document.blocks if block.heading_level and block.title]
    is_below = all(block.end <= start or block.start >= end or block.end > leaf.start for block in headings)
    return document.text[start:end] == leaf.overlap and is_below


def assert_lawful(document: ParsedDocument, chunks: Sequence[Chunk], limits: ChunkLimits) -> None:
    """Check what holds for the chunks of every document."""
    at = 0
    hidden = []
    for leaf in leaves(chunks):
        assert at <= leaf.start < leaf.end
        assert leaf.text == document.text[leaf.start : leaf.end]
        assert leaf.tokens == count_tokens([leaf.text])[0]
        assert leaf.tokens <= limits.max_tokens
        assert len(leaf.text) <= 1.5 * limits.max_chars
        assert leaf.kind is not ChunkKind.PROSE or len(leaf.text) <= limits.max_chars
        assert not leaf.header or leaf.overlap == leaf.header
        assert leaf.header or not leaf.overlap or is_of_section(document, leaf)
        hidden.append((at, leaf.start))
        at = leaf.end
    hidden.append((at, len(document.text)))
    shown = {title for chunk in chunks for title in chunk.heading_path}
    titled = [block for block in document.blocks if block.kind is BlockKind.HEADING and block.title in shown]
    for start, end in hidden:
        text = document.text[start:end]
        for heading in titled:
            if start <= heading.start and heading.end <= end:
                text = text.replace(document.text[heading.start : heading.end], "", 1)
        assert not text.strip()
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert len({chunk.path for chunk in chunks}) == len(chunks)
    assert all(one.path in other.path or one.start <= other.start for one, other in pairwise(chunks))
    assert all((chunk.level == 0) == (chunk.path == "0") for chunk in chunks)
    assert any(chunk.level == 0 for chunk in chunks) == (len(leaves(chunks)) > 1)


# --- Laws ---

words = st.sampled_from(
    ["Der", "Vermieter", "hat", "die", "Mietsache.", "Abs.", "2", "zu", "überlassen.", "It", "ends!", "z.", "B."]
)
sentences = st.lists(words, min_size=1, max_size=40).map(" ".join)
blocks = st.one_of(
    sentences,
    st.builds("{} {}".format, st.sampled_from(["#", "##", "###", "####"]), st.sampled_from("ABCD")),
    st.lists(sentences, min_size=1, max_size=6).map(lambda items: "\n".join(f"- {item}" for item in items)),
    sentences.map("```\n{}\n```".format),
    sentences.map("| a | b |\n|---|---|\n| {} | x |\n| 1 | 2 |".format),
    st.text(alphabet="xyz", min_size=50, max_size=200),
)
documents = st.lists(blocks, max_size=12).map("\n\n".join)


@given(source=documents, limits=st.sampled_from([LIMITS, SMALL, NARROW]))
@example(source="# A\n\na b c d e f g\n\na b c d e f g", limits=replace(NARROW, min_tokens=7, min_chars=0))
@example(source=f"# A\n\n{'a' * 46}\n\n{'a' * 40}", limits=replace(NARROW, min_tokens=10, max_tokens=30, min_chars=45))
def test_leaves_tile_the_document(source: str, limits: ChunkLimits) -> None:
    document = parse_markdown(source)

    assert_lawful(document, chunked(document, limits), limits)


@given(source=st.text(alphabet="ab #-=*|>`.\n1§:<p/h>é\u2028", max_size=120), parse=st.sampled_from(PARSERS))
def test_leaves_tile_whatever_a_parser_makes_of_a_text(source: str, parse: Callable[[str], ParsedDocument]) -> None:
    document = parse(source)

    assert_lawful(document, chunked(document, SMALL), SMALL)


@given(source=documents)
def test_the_same_document_gives_the_same_chunks(source: str) -> None:
    assert chunked(parse_markdown(source)) == chunked(parse_markdown(source))


@given(sections=st.lists(sentences, min_size=2, max_size=6), data=st.data())
def test_moving_sections_keeps_the_ids_of_leaves(sections: list[str], data: st.DataObject) -> None:
    enough = "Genug Wörter für einen eigenen Abschnitt. "
    titled = [f"# Section {number}\n\n{enough}{body}\n\n" for number, body in enumerate(sections)]
    moved = data.draw(st.permutations(titled))

    before, after = (
        {leaf.chunk_id for leaf in leaves(chunked(parse_markdown("".join(each)), SMALL))} for each in (titled, moved)
    )

    assert before == after


ANCHOR = "Ein langer Absatz steht für sich, und nach ihm beginnt immer etwas Neues, was davor auch stand. " * 6
runs = st.lists(st.lists(words, min_size=1, max_size=12).map(" ".join), max_size=8)


@given(before=st.lists(runs, min_size=1, max_size=3), after=st.lists(runs, min_size=1, max_size=3), data=st.data())
def test_an_edit_changes_only_the_chunks_between_the_long_paragraphs_around_it(
    before: list[list[str]], after: list[list[str]], data: st.DataObject
) -> None:
    def document(run: list[str]) -> str:
        return f"\n\n{ANCHOR}\n\n".join("\n\n".join(each) for each in [*before, run, *after])

    old, new = (data.draw(runs) for _ in range(2))
    known = {leaf.text for leaf in leaves(chunked(parse_markdown(document(old))))}
    parsed = parse_markdown(document(new))
    anchors = [block for block in parsed.blocks if parsed.text[block.start : block.end] == ANCHOR.strip()]
    first, last = anchors[len(before) - 1], anchors[len(before)]

    fresh = [leaf for leaf in leaves(chunked(parsed)) if leaf.text not in known]

    assert all(leaf.end > first.start and leaf.start < last.end for leaf in fresh)


@given(
    bodies=st.lists(st.lists(words, min_size=1, max_size=9).map(" ".join), min_size=2, max_size=8),
    least=st.sampled_from([ChunkLimits(min_tokens=8, max_tokens=24, max_chars=150, overlap_chars=0), SMALL]),
)
def test_no_section_below_the_minimum_has_a_neighbour_that_could_take_it(bodies: list[str], least: ChunkLimits) -> None:
    document = parse_markdown("".join(f"# Teil {number}\n\n{body}\n\n" for number, body in enumerate(bodies)))
    chunks = chunked(document, least)
    assert_lawful(document, chunks, least)
    heads = [block.start for block in document.blocks if block.heading_level]
    found = leaves(chunks)

    def whole(leaf: Chunk) -> tuple[int, int]:
        """Return the span with the heading above."""
        return max(start for start in heads if start <= leaf.start), leaf.end

    def tokens(start: int, end: int) -> int:
        return count_tokens([document.text[start:end]])[0]

    for one, other in pairwise(found):
        if "/" in one.path[2:] or "/" in other.path[2:]:
            continue  # of a section of several
        small = [leaf for leaf in (one, other) if tokens(*whole(leaf)) < least.min_tokens]
        first = whole(one)[0] if one in small else one.start
        assert not small or tokens(first, other.end) > least.max_tokens or other.end - first > least.max_chars


@pytest.mark.parametrize(
    ("bodies", "paths", "expected"),
    [
        (["lang", "kurz"], [("Teil 0",)], ["lang\n\n# Teil 1\n\nkurz"]),
        (["kurz", "lang"], [()], ["# Teil 0\n\nkurz\n\n# Teil 1\n\nlang"]),
        (["kurz", "kurz"], [()], ["# Teil 0\n\nkurz\n\n# Teil 1\n\nkurz"]),
        (["lang", "lang"], [("Teil 0",), ("Teil 1",)], ["lang", "lang"]),
        (["lang", "kurz", "lang"], [("Teil 0",), ("Teil 2",)], ["lang\n\n# Teil 1\n\nkurz", "lang"]),
    ],
)
def test_a_small_section_goes_to_the_one_before_else_to_the_one_after(
    bodies: list[str], paths: list[tuple[str, ...]], expected: list[str]
) -> None:
    long = "Ein Abschnitt mit Wörtern genug für ein eigenes Stück."
    text = "".join(f"# Teil {number}\n\n{body}\n\n" for number, body in enumerate(bodies)).replace("lang", long)
    limits = ChunkLimits(min_tokens=9, max_tokens=60, max_chars=300, overlap_chars=0)

    found = leaves(chunked(parse_markdown(text), limits))

    assert [leaf.heading_path for leaf in found] == paths
    assert [leaf.text.replace(long, "lang") for leaf in found] == expected


rows = st.lists(st.tuples(words, words), min_size=1, max_size=30)
TABLES: dict[str, Callable[[Sequence[Sequence[str]]], ParsedDocument]] = {
    "Markdown": lambda rows: parse_markdown(
        "\n".join(["| Amt | Zimmer |", "|---|---|", *(f"| {one} | {other} |" for one, other in rows)])
    ),
    "HTML": lambda rows: parse_html(
        "<table><tr><th>Amt</th><th>Zimmer</th></tr>"
        + "".join(f"<tr><td>{one}</td><td>{other}</td></tr>" for one, other in rows)
        + "</table>"
    ),
    "reStructuredText": lambda rows: parse_rst(
        "\n".join(
            [
                "=========== ===========",
                "Amt         Zimmer",
                "=========== ===========",
                *(f"{one:11} {other}" for one, other in rows),
                "=========== ===========",
            ]
        )
    ),
}


@pytest.mark.parametrize("kind", TABLES)
@given(rows=rows)
def test_the_header_goes_with_every_part_of_a_table(kind: str, rows: list[tuple[str, str]]) -> None:
    limits = ChunkLimits(min_tokens=4, max_tokens=90, max_chars=120, overlap_chars=20)
    document = TABLES[kind](rows)

    chunks = chunked(document, limits)

    assert_lawful(document, chunks, limits)
    for first, leaf in enumerate(leaves(chunks)):
        names = "".join(character for character in leaf.header if character.isalnum())
        assert names == ("AmtZimmer" if first else "")
        assert leaf.text == document.text[leaf.start : leaf.end]


def similarities(texts: Sequence[str]) -> list[float]:
    """Compare texts by the words that they share."""
    words = [set(re.findall(r"\w+", text)) for text in texts]
    return [len(one & other) / max(1, len(one | other)) for one, other in pairwise(words)]


def chunked_by_meaning(
    document: ParsedDocument,
    limits: ChunkLimits = LIMITS,
    *,
    least: float | None = 0.2,
    percentile: float | None = None,
) -> list[Chunk]:
    return chunk_document(
        document,
        identify=partial(chunk_id, TenantId("acme"), DocumentId("document")),
        count_tokens=count_tokens,
        limits=replace(limits, least_similarity=least, breakpoint_percentile=percentile),
        similarities=similarities,
    )


@given(source=documents, limits=st.sampled_from([LIMITS, SMALL]), least=st.sampled_from([-1.0, 0.2, 1.0]))
def test_leaves_that_are_cut_by_meaning_tile_the_document_too(source: str, limits: ChunkLimits, least: float) -> None:
    document = parse_markdown(source)

    assert_lawful(document, chunked_by_meaning(document, limits, least=least), limits)


def test_long_prose_is_cut_where_it_turns_to_something_else() -> None:
    bees = "Der Imker sieht nach den Bienen im Stock und der Imker füttert die Bienen. " * 8
    taxes = "Das Finanzamt setzt die Steuer fest und das Finanzamt verschickt den Bescheid. " * 8
    document = parse_text(f"{bees}\n\n{bees}{taxes}\n\n{taxes}")

    texts = [leaf.text for leaf in leaves(chunked_by_meaning(document))]

    assert not any("Imker" in text and "Finanzamt" in text for text in texts)


@given(source=documents, limits=st.sampled_from([LIMITS, SMALL]), percentile=st.sampled_from([1.0, 50.0, 99.0]))
def test_leaves_that_are_cut_at_a_percentile_tile_the_document_too(
    source: str, limits: ChunkLimits, percentile: float
) -> None:
    document = parse_markdown(source)

    assert_lawful(document, chunked_by_meaning(document, limits, least=None, percentile=percentile), limits)


def test_a_percentile_cuts_at_the_turn_whatever_the_level_of_similarities() -> None:
    bees = "Der Imker sieht nach den Bienen im Stock und der Imker füttert die Bienen. " * 8
    taxes = "Das Finanzamt setzt die Steuer fest und das Finanzamt verschickt den Bescheid. " * 8
    document = parse_text(f"{bees}\n\n{bees}{taxes}\n\n{taxes}")

    def cut(shift: float) -> list[str]:
        chunks = chunk_document(
            document,
            identify=partial(chunk_id, TenantId("acme"), DocumentId("document")),
            count_tokens=count_tokens,
            limits=replace(LIMITS, breakpoint_percentile=95),
            similarities=lambda texts: [shift + (1 - shift) * each for each in similarities(texts)],
        )
        return [leaf.text for leaf in leaves(chunks)]

    assert not any("Imker" in text and "Finanzamt" in text for text in cut(0.0))
    assert cut(0.9) == cut(0.0)


@given(source=documents)
def test_characters_below_the_minimum_are_joined_like_tokens(source: str) -> None:
    limits = replace(LIMITS, min_tokens=1, min_chars=100)
    document = parse_text(source.replace("#", ""))
    # A numbered line is a heading too, and the text before a section is not joined with it.
    assume(not any(block.heading_level for block in document.blocks))

    chunks = chunked(document, limits)

    assert_lawful(document, chunks, limits)
    for one, other in pairwise(leaves(chunks)):
        smaller = min(len(one.text), len(other.text))
        fits = other.end - one.start <= limits.max_chars and one.tokens + other.tokens <= limits.max_tokens
        assert smaller >= limits.min_chars or not fits


@given(source=documents, most=st.integers(0, 12))
def test_an_overlap_is_whole_words_of_so_many_tokens_at_most(source: str, most: int) -> None:
    document = parse_markdown(source)
    limited = replace(SMALL, overlap_tokens=most)

    for leaf, free in zip(leaves(chunked(document, limited)), leaves(chunked(document, SMALL)), strict=True):
        if not leaf.header:
            assert count_tokens([leaf.overlap])[0] <= most
            assert free.overlap.endswith(leaf.overlap)


def test_cutting_by_meaning_needs_something_that_tells_it() -> None:
    with pytest.raises(ValueError, match="similarities"):
        chunked(parse_text("Text."), replace(LIMITS, least_similarity=0.5))


@pytest.mark.parametrize("chunk", [chunked, chunked_by_meaning])
def test_an_insertion_early_in_a_long_paragraph_does_not_shift_later_chunks(
    chunk: Callable[[ParsedDocument, ChunkLimits], list[Chunk]],
) -> None:
    told = [f"Satz {number} handelt von {number * 7919 % 1009} und {number * 31 % 17} Dingen." for number in range(400)]
    before = leaves(chunk(parse_text(" ".join(told)), LIMITS))

    after = leaves(chunk(parse_text(" ".join([*told[:3], "Hier steht nun etwas Neues.", *told[3:]])), LIMITS))

    known = {leaf.chunk_id for leaf in before}
    assert len(before) > 20
    assert sum(leaf.chunk_id not in known for leaf in after) <= 5


def paged(pages: Sequence[str]) -> ParsedDocument:
    """Give each page a heading of its own, where it has text."""
    titles = [f"Seite über {page}"[:40] for page in pages]
    parts = (
        part
        for number, (title, page) in enumerate(zip(titles, pages, strict=True))
        if page
        for part in (
            Part(kind=BlockKind.HEADING, text=title, heading_level=1, page=number),
            Part(kind=BlockKind.PROSE, text=page, page=number),
        )
    )
    return assemble(parts, pages=len(pages))


@given(pages=st.lists(st.one_of(sentences, st.just("")), max_size=6))
def test_a_chunk_begins_and_ends_on_the_pages_that_it_names(pages: list[str]) -> None:
    document = paged(pages)
    edges = [*document.page_starts, len(document.text)]

    for chunk in chunked(document, SMALL):
        assert edges[chunk.first_page - 1] <= chunk.start < edges[chunk.first_page]
        assert edges[chunk.last_page - 1] < chunk.end <= edges[chunk.last_page]
        assert pages[chunk.first_page - 1]
        assert pages[chunk.last_page - 1]


@given(pages=st.lists(sentences, min_size=2, max_size=6))
def test_a_page_more_at_the_beginning_moves_pages_and_keeps_ids(pages: list[str]) -> None:
    before = leaves(chunked(paged(pages), SMALL))

    after = leaves(chunked(paged(["Eine neue Seite steht nun vor allen anderen.", *pages]), SMALL))

    moved = after[-len(before) :]
    assert [leaf.chunk_id for leaf in moved] == [leaf.chunk_id for leaf in before]
    assert [leaf.text for leaf in moved] == [leaf.text for leaf in before]
    assert [(leaf.first_page, leaf.last_page) for leaf in moved] == [
        (leaf.first_page + 1, leaf.last_page + 1) for leaf in before
    ]


@given(source=documents)
def test_a_document_without_pages_names_none(source: str) -> None:
    assert {(chunk.first_page, chunk.last_page) for chunk in chunked(parse_markdown(source))} <= {(0, 0)}


# --- Shape ---


def test_nothing_gives_no_chunks() -> None:
    assert chunked(parse_markdown("")) == []
    assert chunked(parse_markdown(" \n\n")) == []


def test_a_short_document_is_one_chunk() -> None:
    (chunk,) = chunked(parse_text("Kurz.\n\nUnd gut.\n"))

    assert (chunk.level, chunk.path, chunk.text, chunk.heading_path) == (1, "0/0", "Kurz.\n\nUnd gut.", ())


LAW = """# Mietrecht

## § 535 Inhalt

(1) Der Vermieter hat die Mietsache zu überlassen.

(2) Der Mieter zahlt.

## § 536 Mangel

{}

## § 537 (weggefallen)
""".format("\n\n".join(f"({number}) " + "Die Tauglichkeit der Mietsache ist gemindert. " * 8 for number in range(1, 5)))


def test_a_section_that_fits_is_one_leaf_and_a_longer_one_has_a_row_above_its_paragraphs() -> None:
    chunks = chunked(parse_markdown(LAW))

    assert [(chunk.path, chunk.level, chunk.kind.value, chunk.heading_path[-1:]) for chunk in chunks] == [
        ("0", 0, "SUMMARY", ()),
        ("0/0/0", 1, "PROSE", ("§ 535 Inhalt",)),
        ("0/0/1", 1, "SUMMARY", ("§ 536 Mangel",)),
        ("0/0/1/0", 2, "PROSE", ("§ 536 Mangel",)),
        ("0/0/1/1", 2, "PROSE", ("§ 536 Mangel",)),
        ("0/0/1/2", 2, "PROSE", ("§ 536 Mangel",)),
        ("0/0/1/3", 2, "PROSE", ("§ 536 Mangel",)),
        ("0/0/2", 1, "PROSE", ("Mietrecht",)),
    ]
    assert chunks[-1].text == "## § 537 (weggefallen)"


def test_a_summary_is_the_beginning_and_the_headings_below() -> None:
    document, *_ = chunked(parse_markdown(LAW))

    assert document.text == (
        "(1) Der Vermieter hat die Mietsache zu überlassen. (1) Die Tauglichkeit der Mietsache ist gemindert. "
        "(2) Die Tauglichkeit der Mietsache ist gemindert.\n§ 535 Inhalt; § 536 Mangel; § 537 (weggefallen)"
    )
    assert (document.start, document.end) == (0, len(LAW))


@pytest.mark.parametrize("titles", [0, 1, 3])
def test_a_summary_has_as_many_characters_as_it_may(titles: int) -> None:
    lead = " ".join(["wort" * 20, "x" * 158, "wort " * 200])
    sections = "\n\n".join(f"# Titel {title}\n\n{lead}" for title in range(titles))
    summary, *_ = chunked(parse_markdown(f"{'x' * MAX_CHARS} {lead}\n\n{sections}"))

    assert summary.kind is ChunkKind.SUMMARY
    assert len(summary.text) == MAX_CHARS


def test_a_summary_of_notes_has_their_words() -> None:
    notes = "\n\n".join(f".. [#] Start of discussion {n}.\n   (https://example.org/{n})" for n in range(60))
    summary, *_ = chunked(parse_rst(f"References\n==========\n\n{notes}\n"))

    assert summary.level == 0
    assert summary.text.startswith(".. [#] Start of discussion 0.")


def test_a_list_stays_with_the_words_that_introduce_it() -> None:
    filler = "Ein ganzer Absatz ohne Liste, der für sich stehen soll und lang genug dafür ist, wirklich. " * 3
    listed = (
        "Der Mieter kann den Mangel beseitigen, wenn\n\n1. der Verzug besteht oder\n2. Eile geboten ist und niemand da."
    )

    texts = [leaf.text for leaf in leaves(chunked(parse_markdown(f"{filler}\n\n{listed}\n\n{filler * 3}")))]

    assert listed in texts


@pytest.mark.parametrize(
    "sentence",
    [
        (
            "Sie müssen uns unverzüglich mitteilen, wenn sich später\n\na) die Zahl der Mitglieder Ihres "
            "Haushalts verringert,\n\nb) die Miete um mehr als 15 Prozent verringert, oder\n\nc) das Einkommen erhöht."
        ),
        (
            "Wer einen Ausweis vorlegt, der im Ausland ausgestellt ist, und\n\n1. der dort gültig ist oder\n"
            "2. der dort im Mai ungültig geworden ist und verlängert werden kann,\n\nerhält den Ausweis sofort."
        ),
        (
            "**Kann ich jemanden bevollmächtigen, den Ausweis zu beantragen, wenn ich krank bin?**\n\n"
            "Nein, bei der Beantragung müssen Sie persönlich erscheinen, weil Fingerabdrücke zu nehmen sind."
        ),
        (
            "Rechtsbehelfsbelehrung zu diesem Bescheid und zu dem über Gebühren\n\n"
            "Gegen diesen Bescheid kann innerhalb eines Monats nach Bekanntgabe schriftlich Widerspruch erhoben werden."
        ),
    ],
)
@pytest.mark.parametrize("before", range(8))
def test_a_sentence_of_several_paragraphs_and_a_title_with_its_paragraph_stay_whole(sentence: str, before: int) -> None:
    # Where paragraphs are parted depends on those before.
    others = [f"Der Absatz {number} steht für sich und hat mit anderen nichts zu tun." for number in range(20)]

    texts = [
        leaf.text
        for leaf in leaves(chunked(parse_markdown("\n\n".join([*others[:before], sentence, *others[before:]]))))
    ]

    assert any(sentence in text for text in texts)


def test_the_words_that_introduce_a_list_stay_with_its_first_items_if_it_is_too_long_for_them() -> None:
    lead = "(1) Die Verpachtung einer Apotheke ist nach diesem Gesetz nur in folgenden Fällen zulässig:"
    items = [f"{number}. in einem Fall der Nummer {number} dieses langen Absatzes," for number in range(1, 16)]
    listed = "\n".join(items)
    assert count_tokens([listed])[0] <= LIMITS.max_tokens < count_tokens([f"{lead}\n\n{listed}"])[0]

    first, second = (leaf.text for leaf in leaves(chunked(parse_markdown(f"{lead}\n\n{listed}"))))

    assert first.startswith(f"{lead}\n\n{items[0]}\n{items[1]}")
    assert second.endswith(items[-1])


def test_sentences_of_more_paragraphs_than_a_chunk_holds_are_parted_where_they_were() -> None:
    items = [f"{number}a. die Angabe, wie viele Personen {number} Zimmer bewohnen," for number in range(100, 180)]
    listed, longer = ("Anzugeben sind\n\n" + "\n\n".join(each) for each in (items, ["1a. der Name,", *items]))

    texts, others = ({leaf.text for leaf in leaves(chunked(parse_markdown(each)))} for each in (listed, longer))

    assert len(texts) > 5
    assert len(texts - others) <= 2


@pytest.mark.parametrize(("repeats", "whole"), [(60, True), (120, False)])
def test_code_is_cut_only_well_above_the_limit(repeats: int, *, whole: bool) -> None:
    filler = "Ein ganzer Absatz, der für sich stehen soll und lang genug dafür ist, auch mit Code darunter. " * 3
    source = f"{filler}\n\n```\n" + "call(a)\n" * repeats + "```\n"

    code = [leaf for leaf in leaves(chunked(parse_markdown(source))) if leaf.kind is ChunkKind.CODE]

    assert (len(code) == 1) is whole
    assert all(leaf.text.endswith(("```", ")")) for leaf in code)


def test_a_long_paragraph_is_cut_at_sentences_and_not_at_abbreviations() -> None:
    sentence = (
        "Nach § 3 Abs. 2 S. 1 i. V. m. Nr. 4 der Satzung vom 17.6.2004 gilt z. B. für Dr. Kühne am 1. Mai etwas. "
    )
    document = parse_text(sentence * 12)

    texts = [leaf.text for leaf in leaves(chunked(document))]

    assert len(texts) > 1
    assert all(text.startswith("Nach § 3") and text.endswith("am 1. Mai etwas.") for text in texts)


def test_the_overlap_is_whole_words_before_the_chunk() -> None:
    chunks = leaves(
        chunked(parse_text("Eins zwei drei vier.\n\n" + "Fünf sechs sieben acht neun zehn elf zwölf. " * 2), SMALL)
    )

    assert chunks[0].overlap == ""
    assert chunks[1].overlap == "zwei drei vier."
    assert all(len(chunk.overlap) <= 20 for chunk in chunks)


def test_the_overlap_is_of_the_same_section() -> None:
    long = "Der Antrag ist bei der Gemeinde zu stellen, in der die Anlage liegt, und schriftlich zu begründen. " * 2
    small = "## Frist\n\nEin Monat.\n\n## Form\n\nSchriftlich."
    source = f"# Satzung\n\n## Antrag\n\n{long}\n\n{small}\n\n## Ende\n\n{long}{long}"
    first, joined, *last = leaves(chunked(parse_markdown(source), replace(LIMITS, min_tokens=15, max_chars=210)))

    assert joined.text.startswith("## Frist")
    assert (first.overlap, joined.overlap, last[0].overlap) == ("", "", "")
    assert last[1].overlap.endswith("schriftlich zu begründen.")


def test_headings_no_path_can_show_stand_in_a_leaf() -> None:
    long = "Gesetz über " + "sehr vieles und " * 20 + "Ende"
    document = parse_markdown(f"# {long}\n\nText.\n")

    (chunk,) = chunked(document)

    assert long in chunk.text
    assert chunk.heading_path[0].endswith("…")
    assert len(chunk.heading_path[0]) <= 200


@pytest.mark.parametrize("depth", [50, 500])
@pytest.mark.parametrize("body", ["", "Text."])
def test_a_deep_tree_is_chunked(depth: int, body: str) -> None:
    text = ""
    found: list[Block] = []
    for level in range(1, depth + 1):
        heading = Block(
            kind=BlockKind.HEADING, start=len(text), end=len(text) + 4, heading_level=level, title=f"{level:04}"
        )
        text += f"{level:04}\n"
        found.append(heading)
        if body:
            found.append(Block(kind=BlockKind.PROSE, start=len(text), end=len(text) + len(body)))
            text += f"{body}\n"
    document = ParsedDocument(text=text, blocks=tuple(found), title=None, attributes={})

    chunks = chunked(document)

    assert_lawful(document, chunks, LIMITS)
    paths = {chunk.path for chunk in chunks}
    assert all(len(chunk.heading_path) <= 9 for chunk in chunks)
    assert max(path.count("/") for path in paths) <= 65


@pytest.mark.parametrize(
    "source",
    ["x" * 200_000, "wort " * 20_000, "Ein Satz. " * 10_000, "a\x00b\n\n" * 1000, "." * 100_000, "A. " * 20_000],
    ids=["word", "words", "sentences", "NUL", "dots", "initials"],
)
def test_hostile_texts_are_chunked(source: str) -> None:
    document = parse_text(source)

    assert_lawful(document, chunked(document), LIMITS)


@pytest.mark.parametrize(
    "limits",
    [
        ChunkLimits(min_tokens=0, max_tokens=256, max_chars=1200, overlap_chars=0),
        ChunkLimits(min_tokens=1, max_tokens=0, max_chars=1200, overlap_chars=0),
        ChunkLimits(min_tokens=1, max_tokens=1, max_chars=1, overlap_chars=-1),
    ],
)
def test_impossible_limits_are_an_error(limits: ChunkLimits) -> None:
    with pytest.raises(ValueError, match="limits"):
        chunked(parse_text("Text."), limits)


def test_the_fingerprint_tells_settings_apart() -> None:
    assert chunker_fingerprint("markdown", 3, LIMITS) == "14:markdown.3:30-256:1200-150"
    assert chunker_fingerprint("text", 3, LIMITS) != chunker_fingerprint("markdown", 3, LIMITS)
    assert chunker_fingerprint("text", 1, replace(LIMITS, least_similarity=0.8)) == "14:text.1:30-256:1200-150:0.8"
    others = replace(LIMITS, breakpoint_percentile=90, min_chars=100, overlap_tokens=20)
    assert chunker_fingerprint("text", 1, others) == "14:text.1:30-256:1200-150:p90:c100:o20"
    assert chunker_fingerprint("text", 2, LIMITS) != chunker_fingerprint("text", 3, LIMITS)


# --- Real documents ---


def _contents(stream: str, every: int) -> Iterator[str]:
    with (STREAMS / f"{stream}.jsonl.zst").open("rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8")
        for number, line in enumerate(lines):
            if number % every == 0 and (content := json.loads(line).get("content")) and len(content) < 100_000:
                yield content


@pytest.mark.skipif(not STREAMS.exists(), reason="the streams of laws and PEPs are not here")
@pytest.mark.parametrize(("stream", "parse"), [("gesetze", parse_markdown), ("peps", parse_rst)])
def test_laws_and_peps_are_tiled(stream: str, parse: Callable[[str], ParsedDocument]) -> None:
    for content in _contents(stream, every=60):
        document = parse(content)
        assert_lawful(document, chunked(document), LIMITS)
