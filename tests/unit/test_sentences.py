"""Sentences end where readers of German and English say so."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.chunk.sentences import sentence_ends
from tests.unit.sentences import ENGLISH, GERMAN, marked


@pytest.mark.parametrize("passage", [*GERMAN.strip().splitlines(), *ENGLISH.strip().splitlines()])
def test_sentences_end_where_they_are_marked(passage: str) -> None:
    text = passage.replace("‖", "")

    assert marked(text, sentence_ends(text, 0, len(text))) == passage


@pytest.mark.parametrize("space", ["\u00a0", "\u202f"])
@pytest.mark.parametrize("passage", [*GERMAN.strip().splitlines(), *ENGLISH.strip().splitlines()])
def test_no_break_spaces_change_no_sentence(passage: str, space: str) -> None:
    text = passage.replace("‖", "")
    written = text.replace(" ", space)

    assert list(sentence_ends(written, 0, len(text))) == list(sentence_ends(text, 0, len(text)))


@given(st.lists(st.sampled_from(["..", "...", "!", "[#]", "Ja.", "Nein!", "?", "5.2"]), max_size=30))
def test_each_sentence_says_something(pieces: list[str]) -> None:
    text = " ".join(pieces)
    ends = [0, *sentence_ends(text, 0, len(text))]

    assert all(any(map(str.isalnum, text[start:end])) for start, end in pairwise(ends))
