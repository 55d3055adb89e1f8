"""What imitates a mark is found however it is written, and loses one character."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.defusing import defuse, plain

MARKS = re.compile(r"<(?=x)")


@pytest.mark.parametrize(
    "letter", ["\u200b", "\u034f", "\ufe0f", "\u00ad", "\u115f", "\u3164", "\uffa0", "\x00", "\U000e0041"]
)
def test_what_cannot_be_seen_is_nothing(letter: str) -> None:
    assert plain(letter) == ""


@pytest.mark.parametrize(
    ("letter", "read"), [("a", "a"), ("Ａ", "A"), ("ä", "a"), ("［", "["), ("\n", "\n"), ("½", "1⁄2")]
)
def test_what_can_be_seen_is_read_in_its_usual_form(letter: str, read: str) -> None:
    assert plain(letter) == read


@given(st.lists(st.sampled_from(["<", "＜", "x", "ｘ", "\u200b", "½", "a"]), max_size=30).map("".join))
def test_each_mark_loses_its_beginning_and_nothing_else_changes(text: str) -> None:
    told = defuse(text, MARKS, "‹")

    expected = list(text)
    for place, letter in enumerate(text):
        if plain(letter) == "<" and text[place + 1 :].lstrip("\u200b")[:1] in {"x", "ｘ"}:
            expected[place] = "‹"
    assert told == "".join(expected)
