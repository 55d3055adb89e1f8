import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import asked_abbreviation, asked_term


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("Was bedeutet SGB XII?", "SGB XII"),
        ("was heißt DSGVO", "DSGVO"),
        ("Was ist eine GmbH?", "GmbH"),
        ("Wofür steht die Abkürzung KMU?", "KMU"),
        ("Was steht KMU für?", "KMU"),
        ("Was versteht man unter AGG?", "AGG"),
        ("Was ist mit OZG gemeint?", "OZG"),
        ("What is a PEP?", "PEP"),
        ("What does RRF stand for?", "RRF"),
        ("What is meant by the term MMR?", "MMR"),
        ("meaning of BM25", "BM25"),
        ("Was bedeutet „SGB XII“?", "SGB XII"),
        ("Was kostet das?", "Was kostet das?"),
        ("BM25", "BM25"),
        ("", ""),
    ],
)
def test_the_term_is_what_stands_in_the_question(text: str, term: str) -> None:
    assert asked_term(text) == term


@given(st.text())
def test_the_term_is_a_part_of_the_text(text: str) -> None:
    assert asked_term(text) in text


def test_a_long_text_is_no_such_question() -> None:
    text = f"Was ist {'.' * 20_000}x?"

    assert asked_term(text) == text


@pytest.mark.parametrize(
    ("text", "abbreviation"),
    [
        ("IFG", "IFG"),
        ("Was bedeutet SGB XII?", "SGB XII"),
        ("Was ist ein BAföG?", "BAföG"),
        ("Wofür steht StVollzG?", "StVollzG"),
        ("Gebühren IFG", ""),
        ("WAS KOSTET EIN NEUER PERSONALAUSWEIS", ""),
        ("Was ist eine Satzung?", ""),
        ("4711-0815", ""),
        ("!!!", ""),
        ("", ""),
    ],
)
def test_an_abbreviation_is_asked_for_alone_or_by_its_meaning(text: str, abbreviation: str) -> None:
    assert asked_abbreviation(text) == abbreviation
