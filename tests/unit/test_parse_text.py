"""Plain text is split at blank lines and numbered headings."""

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_text import parse_text
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts


def test_paragraphs_are_parted_by_blank_lines() -> None:
    document = parse_text("  One\ntwo.\n \t\nThree.\n")

    assert texts(document, BlockKind.PROSE) == ["One\ntwo.", "Three."]


def test_numbered_lines_are_headings() -> None:
    document = parse_text(
        "1. Allgemeines\n\nText.\n\n1.2 Geltung\n\nText.\n\n§ 3 Fristen\n\nText.\n\n2 Ende\n\nText.\n"
    )

    assert headings(document) == [(1, "1. Allgemeines"), (2, "1.2 Geltung"), (1, "§ 3 Fristen"), (1, "2 Ende")]


def test_numbered_sentences_and_items_are_no_headings() -> None:
    document = parse_text("1. Er kam.\n\nText.\n\n1. Äpfel\n\n2. Birnen\n\n3. Quitten\n\n17.6.2004 war ein Tag.\n")

    assert headings(document) == []


def test_a_first_line_that_is_no_sentence_is_the_title() -> None:
    assert parse_text("Dienstanweisung 12\n\nSie gilt.\n").title == "Dienstanweisung 12"
    assert parse_text("Sie gilt.\n\nDienstanweisung 12\n").title is None
    assert parse_text("Dienstanweisung 12").title is None
    assert parse_text("- Apfel\n\nBirne\n").title is None


def test_a_paragraph_of_items_is_a_list() -> None:
    document = parse_text("- a\n  more\n- b\n")

    (listed,) = document.blocks
    assert listed.kind is BlockKind.LIST
    assert parts(document, listed) == ["- a\n  more", "- b"]


@given(source=st.text(alphabet="Aa1.§- \t\n\r\x0b\u2028\x00", max_size=80))
def test_blocks_hold_all_that_is_visible(source: str) -> None:
    assert_outline(parse_text(source))
