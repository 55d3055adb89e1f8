"""The same question in other words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.rephrase import (
    as_statement,
    corrected,
    feedback_terms,
    feedback_vector,
    made_short,
    spelt_out,
    synonyms_of,
    with_joined,
    with_split,
    with_synonyms,
)
from freki.schemas import Definition


@pytest.mark.parametrize(
    ("language", "question", "statement"),
    [
        ("de", "Wie lange ist die Kündigungsfrist?", "Die Kündigungsfrist beträgt"),
        ("de", "Wie hoch sind die Gebühren?", "Die Gebühren betragen"),
        ("de", "Wann verjährt ein Anspruch?", "Ein Anspruch verjährt"),
        ("de", "Was ist ein Verwaltungsakt?", "Ein Verwaltungsakt ist"),
        ("de", "Wer entscheidet über den Antrag?", "Entscheidet über den Antrag"),
        ("en", "How long is the notice period?", "The notice period is"),
        ("en", "How do I set a timeout?", "I set a timeout"),
        ("en", "What is a virtual environment?", "A virtual environment is"),
        ("de", "Kündigungsfrist Mietvertrag", ""),
        ("de", "Darf mein Vermieter mir kündigen?", ""),
        ("fr", "Quel est le délai ?", ""),
    ],
)
def test_a_question_becomes_the_beginning_of_its_answer(language: str, question: str, statement: str) -> None:
    assert as_statement(question, language=language) == statement


def test_words_of_one_meaning_give_way_to_others_for_it() -> None:
    said = with_synonyms("Wann bekomme ich die Kaution für den Mietwagen zurück?", language="de")

    assert said[0] == "Wann bekomme ich die Sicherheitsleistung für den Leihauto zurück?"
    assert len(said) == 2


def test_words_of_several_meanings_stay() -> None:
    assert with_synonyms("Wo ist die Bank?", language="de") == ()
    assert synonyms_of("bank", language="en") == ()


@given(question=st.text(max_size=60), language=st.sampled_from(["de", "en", "fr"]))
def test_synonyms_are_at_most_two_and_differ_from_the_question(question: str, language: str) -> None:
    said = with_synonyms(question, language=language)

    assert len(said) <= 2
    assert question not in said


def test_words_are_joined_only_to_compounds_that_texts_have() -> None:
    assert with_joined("Wie ist die Frist der Kündigung?", ["Kündigungsfrist"]) == "Wie ist die Kündigungsfrist?"
    assert with_joined("Wie ist die Frist der Kündigung?", ["Antrag"]) == ""


def test_compounds_are_split() -> None:
    assert with_split("Welche Kündigungsfrist?", lambda word: ["kündigung", "frist"] if "frist" in word else []) == (
        "Welche Kündigung Frist?"
    )
    assert with_split("Welche Frist?", lambda _: []) == ""


def test_short_forms_are_spelt_out_and_long_ones_made_short() -> None:
    known = [Definition(short="UVP", long="Umweltverträglichkeitsprüfung")]

    assert spelt_out("Wer macht die UVP?", known) == "Wer macht die Umweltverträglichkeitsprüfung?"
    assert made_short("Wer macht die umweltverträglichkeitsprüfung?", known) == "Wer macht die UVP?"
    assert spelt_out("Wer macht die UVPs?", known) == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Kündigugsfrist", "Kündigungsfrist"),
        ("Kuendigungsfrist", "Kündigungsfrist"),
        ("Wohnugn", "Wohnung"),
        ("Strase", "Straße"),
        ("Mieter", ""),
        ("Amd", ""),
        ("Zeitschrift", ""),
        ("unbefristet", ""),
        ("Büchherr", "Bücher"),
        ("befrissstet", "befristet"),
    ],
)
def test_unknown_words_are_written_as_the_texts_do(asked: str, said: str) -> None:
    vocabulary = {"Kündigungsfrist": 2, "Wohnung": 1, "Miete": 3, "Straße": 1, "Amt": 1, "Bücher": 1, "befristet": 1}

    assert corrected(asked, lambda: vocabulary, is_known=lambda word: word == "Mieter") == said


words = st.text("abcdeü", min_size=1, max_size=10)


@given(question=st.lists(words, min_size=1, max_size=5), vocabulary=st.dictionaries(words, st.integers(1, 9)))
def test_a_correction_changes_words_only_into_those_of_the_vocabulary(
    question: list[str], vocabulary: dict[str, int]
) -> None:
    said = corrected(" ".join(question), lambda: vocabulary, is_known=lambda _: False).split()

    assert all(new == old or new in vocabulary for old, new in zip(question, said or question, strict=True))


def test_what_the_best_texts_say_most_is_asked_for_too() -> None:
    terms = feedback_terms("frist", ["=kundigung kundig frist mieter", "kundig frist"], [1.0, 0.5]).split()

    assert set(terms) == {"frist", "kundig", "mieter"}
    assert terms.count("frist") > terms.count("kundig") >= terms.count("mieter")
    assert feedback_terms("frist", [], []) == ""
    assert feedback_terms("frist", ["kundig mieter"], [0.0]) == ""


@given(data=st.data(), dim=st.integers(2, 5), count=st.integers(0, 4))
def test_a_moved_vector_has_length_1_and_lies_nearer_to_the_others(data: st.DataObject, dim: int, count: int) -> None:
    seed = data.draw(st.integers(0, 1000))
    drawn = np.random.default_rng(seed).normal(size=(count + 1, dim)).astype(np.float32)
    unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    question, others = unit[0], list(unit[1:])

    moved = feedback_vector(question, others)

    assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-4)
    if others:
        mean = np.mean(others, axis=0)
        assert moved @ mean >= question @ mean - 1e-4
