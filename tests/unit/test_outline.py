"""Parts become a document whose spans and pages are right."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_csv import parse_csv
from freki.operators.parse_html import parse_html
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_rst import parse_rst
from freki.operators.parse_text import parse_text
from freki.schemas.outline import BlockKind, ParsedDocument, Part, assemble, stacked, visible
from tests.unit.outlines import assert_outline, parts, texts

words = st.text(alphabet="aä b\n\x00\ud800", max_size=8)


def _prose(text: str, page: int = 0, *page_breaks: int) -> Part:
    return Part(kind=BlockKind.PROSE, text=text, page=page, page_breaks=page_breaks)


def test_parts_are_parted_by_blank_lines() -> None:
    heading = Part(kind=BlockKind.HEADING, text="Über uns", heading_level=2)

    document = assemble([heading, _prose("Text"), _prose(" ")], title=" Ein\nTitel ")

    assert (document.text, document.title) == ("Über uns\n\nText", "Ein Titel")
    assert texts(document, BlockKind.HEADING) == ["Über uns"]


def test_a_page_begins_where_its_first_text_does() -> None:
    document = assemble([_prose("eins"), _prose("zwei"), _prose("drei", 1)], pages=2)

    assert [document.text[start:][:4] for start in document.page_starts] == ["eins", "drei"]


def test_a_page_without_text_begins_where_the_next_one_does() -> None:
    document = assemble([_prose("eins", 1), _prose("zwei", 3)], pages=5)

    assert document.page_starts == (0, 0, 6, 6, 10)


def test_a_part_may_go_on_over_pages() -> None:
    document = assemble([_prose("vorher"), _prose("eins zwei drei", 0, 5, 10)], pages=3)

    assert [document.text[start:] for start in document.page_starts[1:]] == ["zwei drei", "drei"]


def test_a_format_without_pages_has_no_page_starts() -> None:
    assert assemble([_prose("Text")]).page_starts == ()


def test_rows_are_stacked_with_seams_and_page_breaks() -> None:
    document = assemble([stacked(BlockKind.TABLE, [_prose("a | b"), _prose("c | d", 1), _prose("e", 3)])], pages=4)

    (table,) = document.blocks
    assert parts(document, table) == ["a | b", "c | d", "e"]
    assert document.page_starts == (0, 6, 12, 12)


def test_control_characters_and_half_surrogates_become_spaces() -> None:
    assert assemble([_prose("a\x00b\ud800c")]).text == "a b c"


@given(texts=st.lists(st.lists(words, min_size=1, max_size=3), max_size=5))
def test_any_parts_make_an_outline_with_ascending_pages(texts: list[list[str]]) -> None:
    rows = [[_prose(text, page) for text in page_texts] for page, page_texts in enumerate(texts)]

    document = assemble([stacked(BlockKind.LIST, row) for row in rows], pages=len(texts))

    assert_outline(document)
    assert "".join(document.text.split()) == "".join("".join(text.split()) for row in texts for text in row).translate(
        {0: None, 0xD800: None}
    )
    assert all(before <= start for before, start in pairwise((0, *document.page_starts)))


@pytest.mark.parametrize("parse", [parse_csv, parse_html, parse_markdown, parse_rst, parse_text])
def test_line_ends_of_mainframes_are_line_ends(parse: Callable[[str], ParsedDocument]) -> None:
    document = parse("Amt\x85\x85Zeit" + "\x85" * 700 + "Ende")

    assert document.text.split() == ["Amt", "Zeit", "Ende"]
    assert "\x85" not in document.text


def test_line_ends_of_mainframes_are_line_ends_in_parts() -> None:
    assert assemble([Part(kind=BlockKind.PROSE, text="Amt\x85Zeit")]).text == "Amt\nZeit"


@pytest.mark.parametrize("parse", [parse_csv, parse_html, parse_markdown, parse_rst, parse_text])
def test_words_are_whole_although_signs_without_width_part_them(parse: Callable[[str], ParsedDocument]) -> None:
    document = parse("Titel\n=====\n\nMiet\u00adver\u200btrag, Kün\u2060di\ufeffgung, DE\u200b89\n")

    assert document.text.endswith("Mietvertrag, Kündigung, DE89" + "\n" * document.text.endswith("\n"))
    assert_outline(document)


@pytest.mark.parametrize("text", ["می\u200cخواهم", "👩\u200d💻", "ภาษา\u200bไทย"])
def test_signs_without_width_that_writing_needs_are_kept(text: str) -> None:
    assert visible(text) == text


def test_padding_of_newsletters_is_left_out() -> None:
    assert parse_html("<p>Guten Tag\u034f \u200c \u200c\u200d \u034f \u200c</p>").text.split() == ["Guten", "Tag\u034f"]
