"""reStructuredText is split where a reader sees its parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_rst import parse_rst
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts


def test_styles_of_headings_are_levels_in_the_order_they_are_met() -> None:
    document = parse_rst("=====\nTitle\n=====\n\nA\n=\n\nB ``x``\n-------\n\nC\n=\n\nD\n~\n")

    assert headings(document) == [(1, "Title"), (2, "A"), (3, "B x"), (2, "C"), (4, "D")]
    assert document.title == "Title"


def test_a_header_as_peps_have_it_gives_title_and_attributes() -> None:
    document = parse_rst(
        "PEP: 440\nTitle: Version Identification\nAuthor: Alyssa Coghlan <a@b.c>,\n        Donald Stufft\n"
        "Post-History: 2013\nRequires:\n\n\nAbstract\n========\n\nText.\n"
    )

    assert document.title == "Version Identification"
    assert document.attributes == {
        "pep": "440",
        "author": "Alyssa Coghlan <a@b.c>, Donald Stufft",
        "post_history": "2013",
    }
    assert document.blocks[0].kind is BlockKind.LIST
    assert parts(document, document.blocks[0])[0] == "PEP: 440"
    assert headings(document) == [(1, "Abstract")]


def test_blocks_have_their_kinds() -> None:
    document = parse_rst(
        "Text::\n\n    literal\n\n      deeper\n\nMore.\n\n.. code-block:: py\n\n   x = 1\n\n.. note::\n\n   Beware."
        "\n\n* a\n\n  still a\n* b\n\n>>> 1 + 1\n2\n\n+---+\n| a |\n+---+\n\n"
        "== ==\na  b\n== ==\n1  2\n\n3  4\n== ==\n\nEnd.\n"
    )

    assert texts(document, BlockKind.PROSE) == ["Text::", "More.", ".. note::\n\n   Beware.", "End."]
    assert texts(document, BlockKind.CODE) == [
        "    literal\n\n      deeper",
        ".. code-block:: py\n\n   x = 1",
        ">>> 1 + 1\n2",
    ]
    assert texts(document, BlockKind.LIST) == ["* a\n\n  still a\n* b"]
    assert texts(document, BlockKind.TABLE) == [
        "+---+\n| a |\n+---+",
        "== ==\na  b\n== ==\n1  2\n\n3  4\n== ==",
    ]


def test_a_line_of_dashes_is_no_heading_without_a_title() -> None:
    document = parse_rst("Text.\n\n----\n\n* a\n\nMore ...\n")

    assert headings(document) == []


@pytest.mark.parametrize(
    "source",
    [
        "".join(f"T{i}\n{'=-~^+*#'[i % 7] * 4}\n\n" for i in range(5000)),
        ":a " * 50_000,
        ".. x::\n   y\n\n" * 5000,
        "=" * 500_000,
    ],
    ids=["headings", "roles", "directives", "line"],
)
def test_hostile_documents_are_parsed(source: str) -> None:
    assert_outline(parse_rst(source))


@given(source=st.text(alphabet="ab=-*.:|+> \t\n1#(`\x0c\u2028", max_size=80))
def test_blocks_hold_all_that_is_visible(source: str) -> None:
    assert_outline(parse_rst(source))
