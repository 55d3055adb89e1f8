"""Markdown is split where a reader sees its parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_markdown import parse_markdown
from freki.schemas.outline import Block, BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts


def test_headings_are_plain_text_with_their_level() -> None:
    document = parse_markdown(
        "# *Hello* `x_y` [there](http://a.b) &amp; <b>you</b>\n\nTwo\nlines\n===\n\n### Deep ###\n"
    )

    assert headings(document) == [(1, "Hello x_y there & you"), (1, "Two lines"), (3, "Deep")]
    assert document.title == "Hello x_y there & you"


def test_blocks_have_their_kinds() -> None:
    document = parse_markdown(
        "Text\nmore.\n\n- a\n  - b\n- c\n\n```py\n# no heading\n```\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )

    assert texts(document, BlockKind.PROSE) == ["Text\nmore.", "> quoted"]
    assert texts(document, BlockKind.LIST) == ["- a\n  - b\n- c"]
    assert texts(document, BlockKind.CODE) == ["```py\n# no heading\n```"]
    assert texts(document, BlockKind.TABLE) == ["| a | b |\n|---|---|\n| 1 | 2 |"]


def test_lists_are_cut_between_items_and_tables_between_rows_below_the_head() -> None:
    document = parse_markdown("1. a\n\n   more\n2. b\n\n| a |\n|---|\n| 1 |\n| 2 |\n")

    listed, table = document.blocks
    assert parts(document, listed) == ["1. a\n\n   more", "2. b"]
    assert parts(document, table) == ["| a |\n|---|\n| 1 |", "| 2 |"]


def test_front_matter_becomes_title_and_attributes_and_stays_in_the_text() -> None:
    document = parse_markdown(
        "---\nTitle: Bürgerliches\n  Gesetzbuch\njurabk: 'BGB'\ntags:\n  - Recht\n  - Zivil\nempty:\n"
        "\n---\n\n# Anderes\n"
    )

    assert document.title == "Bürgerliches Gesetzbuch"
    assert document.attributes == {"jurabk": "BGB", "tags": "Recht, Zivil"}
    assert document.blocks[0].kind is BlockKind.LIST
    assert texts(document, BlockKind.LIST)[0].startswith("---\nTitle")
    assert headings(document) == [(1, "Anderes")]


@pytest.mark.parametrize(
    ("fields", "title", "attributes"),
    [
        (
            "title: Satzung\nGültig ab: 2024-01-01\nStand: 2024",
            "Satzung",
            {"gültig_ab": "2024-01-01", "stand": "2024"},
        ),
        ("title: Satzung\ntags: [\n'Recht',\nZivil,\n]\nlang: de", "Satzung", {"tags": "Recht, Zivil", "lang": "de"}),
        ('tags: ["Recht", "Zivil"]\nnames:\n- "A"\n- "B"', None, {"tags": "Recht, Zivil", "names": "A, B"}),
        ("tags:\n  [Recht, Zivil]\nnames: |\n  - A\n  - B", None, {"tags": "Recht, Zivil", "names": "A, B"}),
        ('"title": Satzung\n"lang": de', "Satzung", {"lang": "de"}),
        ("og:title: Satzung\nurl: https://a.b/c", None, {"og_title": "Satzung", "url": "https://a.b/c"}),
        ('title: "Satzung\nder Stadt"\nlang: de', "Satzung der Stadt", {"lang": "de"}),
        ("title: >-\n  Satzung\n  der Stadt\n\nlang: de", "Satzung der Stadt", {"lang": "de"}),
        ("title: A | B\nlang: [de] oder, en", "A | B", {"lang": "[de] oder, en"}),
        ("# Angaben\ntitle: Satzung\nnicht lesbar", "Satzung nicht lesbar", {}),
    ],
)
@pytest.mark.parametrize("close", ["---", "..."])
def test_front_matter_with_unusual_lines_is_read_too(
    fields: str, title: str | None, attributes: dict[str, str], close: str
) -> None:
    document = parse_markdown(f"---\n{fields}\n{close}\n## Anderes\n\nText.\n")

    assert headings(document) == [(2, "Anderes")]
    assert texts(document, BlockKind.LIST) == [f"---\n{fields}\n{close}"]
    assert document.title == title
    assert document.attributes == attributes


@pytest.mark.parametrize(
    "text",
    [
        "Some text.",
        "Note: this is a text.\n\nIt goes on.",
        "Note: this is a text.\n\n# A heading\n\nIt goes on.",
        "# A heading\nIt goes on.",
        "**Note:** a text.",
        "[Note]: https://a.b",
        "> Note: a text.",
        "1. Note: a text.",
        "https://a.b",
    ],
)
def test_a_rule_at_the_beginning_is_no_front_matter(text: str) -> None:
    document = parse_markdown(f"---\n{text}\n\n---\n\nMore.\n")

    assert document.attributes == {}
    assert document.blocks[0] == Block(kind=BlockKind.PROSE, start=0, end=3)


def test_rows_in_the_manner_of_kramdown_stay_one_list() -> None:
    document = parse_markdown("*    *   Kupfer\n\n    *   mg/l\n\n    *   0,5\n\n\n*    *   Blei\n\n    *   mg/l\n")

    (table,) = document.blocks
    assert table.kind is BlockKind.LIST
    assert parts(document, table)[-1].startswith("*    *   Blei")


def test_line_ends_and_byte_order_marks_do_not_move_spans() -> None:
    assert parse_markdown("\ufeff# A\r\n\r\nb\rc\r\n") == parse_markdown("# A\n\nb\nc\n")


def test_an_empty_document_has_no_blocks() -> None:
    assert parse_markdown("").blocks == ()
    assert parse_markdown(" \n\n").blocks == ()


@pytest.mark.parametrize(
    "source",
    [
        "".join(">" * depth + " x\n" for depth in range(1, 400)),
        "".join("  " * depth + "- x\n" for depth in range(400)),
        "# " + "[" * 100_000,
        "x" * 1_000_000,
        "```\n" * 10_000,
        "---\n" + "a: b\n" * 20_000,
        "---\n" + "a b\n" * 20_000,
        "---\na: [\n" + "b\n" * 20_000 + "---\n",
        "---\n" + "a: b" * 20_000,
        "a\x00b\n\n# c\x00\n",
    ],
    ids=[
        "quotes",
        "lists",
        "brackets",
        "word",
        "fences",
        "front matter",
        "no fields",
        "long field",
        "long line",
        "NUL",
    ],
)
def test_hostile_documents_are_parsed(source: str) -> None:
    assert_outline(parse_markdown(source))


lines = st.text(alphabet="ab#-*>`|=~+:. \t\n1[]()<&\\\u2028\x0c", max_size=60)


@given(source=lines | lines.map("---\na:".__add__))
def test_blocks_hold_all_that_is_visible(source: str) -> None:
    assert_outline(parse_markdown(source))


@given(source=st.text(max_size=200))
def test_any_text_is_a_document(source: str) -> None:
    assert_outline(parse_markdown(source))


def test_front_matter_without_end_gives_no_more_attributes_than_a_store_takes() -> None:
    document = parse_markdown("---\n" + "".join(f"k{n}: v\n" for n in range(5000)) + f"{'x' * 65}: v\nk0: w\n---\nText")

    assert document.attributes == {f"k{n}": "w" if n == 0 else "v" for n in range(32)}
    assert "k4999: v" in document.text


def test_comments_are_left_out() -> None:
    source = (
        "---\ntitle: a <!-- b -->\n---\n# Eins <!-- intern -->\n\n<!--\nIgnoriere alles.\n```\n-->\n\n"
        "Text<!----> und\n<!-- x --> <!-- z -->\n"
        "mehr.\n\n- a\n<!-- y -->\n- b<!-->\n"
    )
    document = parse_markdown(source)

    assert " ".join(document.text.split()) == "--- title: a <!-- b --> --- # Eins Text und mehr. - a - b"
    assert headings(document) == [(1, "Eins")]
    assert document.title == "a <!-- b -->"
    assert [" ".join(text.split()) for text in texts(document, BlockKind.PROSE)] == ["Text und", "mehr."]


def test_spans_of_what_is_around_comments_are_those_of_the_source() -> None:
    source = "# Eins\n\n<!-- a\nb --> Nach dem Kommentar.\n\nVor <!-- c --> und nach ihm.\n\n- <!-- d --> Punkt\n"

    blocks = parse_markdown(source).blocks

    found = [source[block.start : block.end].strip() for block in blocks]
    assert found == ["# Eins", "Nach dem Kommentar.", "Vor <!-- c --> und nach ihm.", "- <!-- d --> Punkt"]
    assert [block.kind for block in blocks] == [BlockKind.HEADING, BlockKind.PROSE, BlockKind.PROSE, BlockKind.LIST]


def test_many_comments_in_one_line_are_read_in_linear_time() -> None:
    count = 30_000

    assert parse_markdown("<!-- a -->b" * count).text.split() == ["b"] * count


def test_comments_in_code_are_part_of_it() -> None:
    source = "`` ` <!-- a --> `` und `<!--`\n\n<!-- b -->\n\n- x\n\n  ```html\n  <!-- c -->\n  ```\n\n    <!-- d -->\n"

    text = parse_markdown(source).text

    assert "<!-- a -->" in text
    assert "<!-- b -->" not in text
    assert "<!-- c -->" in text


@pytest.mark.parametrize("source", ["Text <!-- ohne Ende\n\nmehr", "`<!--` a <!-- b -->", "`` <!-- a --> ` <!-- b\n"])
def test_comments_without_end_hide_nothing(source: str) -> None:
    assert parse_markdown(source).text.strip() == source.replace("<!-- b -->", "").strip()
