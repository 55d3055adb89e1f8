"""Questions and documents get their language, and what says nothing gets none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.detect_language import CANDIDATES, UNDETERMINED, detect_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wo hat Peter Kühne gearbeitet?", "de"),
        ("Welche Pflichten hat der Vermieter während der Mietzeit?", "de"),
        ("How do I reset my password?", "en"),
        ("What is the boundary layer?", "en"),
        ("Quelles sont les obligations du bailleur pendant le bail ?", "fr"),
        ("Chief Financial Officer bei der Deutschen Bank", "de"),
    ],
)
def test_a_question_has_its_language(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["", " \n", "42", "§ 535", "DIN 18040-1", "50.000 EUR", "12.01.2024 14:30"])
def test_what_holds_no_words_has_none(text: str) -> None:
    assert detect_language(text) == UNDETERMINED
    assert detect_language(text, candidates=("de", "en")) == UNDETERMINED


def test_a_language_that_is_no_candidate_is_not_taken_for_one() -> None:
    ukrainian = "Усі люди народжуються вільними і рівними у своїй гідності та правах."

    assert detect_language(ukrainian) == UNDETERMINED
    assert detect_language(ukrainian, candidates=("de", "uk")) == "uk"


def test_a_foreign_beginning_does_not_decide_for_a_long_document() -> None:
    preamble = "All rights reserved. This document is provided as it is, without warranty of any kind. " * 4
    body = "Der Vermieter hat die Mietsache dem Mieter in einem geeigneten Zustand zu überlassen. " * 400

    assert detect_language(preamble + body) == "de"


def test_an_unknown_candidate_is_an_error() -> None:
    with pytest.raises(ValueError, match="candidates"):
        detect_language("Guten Tag", candidates=("de", "xx"))
    with pytest.raises(ValueError, match="candidates"):
        detect_language("Guten Tag", candidates=())


@given(text=st.text())
def test_any_text_gives_a_candidate_or_none(text: str) -> None:
    assert detect_language(text) in {*CANDIDATES, UNDETERMINED}
