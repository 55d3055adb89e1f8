"""Questions and documents get their language, and what says nothing gets none."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import LanguageIdentifier

from freki.operators import detect_language as module
from freki.operators.detect_language import CANDIDATES, UNDETERMINED, detect_language, may_be_in


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


GERMAN_QUERIES = [
    *("Was gilt?", "Was tun?", "Was nun?", "was fehlt ?", "Was heißt das?", "Was kostet das?", "Was ist RAG?"),
    *("Wer haftet?", "Wer zahlt?", "wer zahlt", "Wie lange?", "Wie oft?", "Wie hoch?", "Warum?", "Wohin?", "Wann?"),
    *("Wo?", "Wofür?", "Und Rom?", "Welche Frist?", "Darf ich das?", "Gilt das auch?", "Hat das Folgen?"),
    *("Wieso nicht?", "Wo kommt Corona her?", "ab wann", "bis wann", "seit wann?", "zur Miete", "ohne Termin"),
    *("Termine und Fristen", "Kafka oder RabbitMQ", "Kündigungsfrist?", "Höhe der Strafe", "Straße", "Größe"),
    *("gemäß Satzung", "Kaution zurück", "Streit wegen Lärm", "Ist stillen trotz Corona ok?"),
    *("Wie oft reist Doctor Who alleine?", "Wann kann Ben kommen?", "Nicht zugestellt"),
    *("Was regelt § 3 NetzDG?", "Was kostet KX-200?", "was sagt PEP 8", "Was fordert DIN 18040-1?"),
]
ENGLISH_QUERIES = [
    *("Who is liable?", "Who pays?", "who pays", "How long?", "How?", "Why?", "why not", "When?", "Where?"),
    *("What applies?", "What now?", "Was it?", "Was this legal?", "Is it due?", "Can Ben pay?", "can I cancel"),
    *("Does COVID-19 complicate pregnancy?", "Are babies susceptible to COVID-19?"),
    *("Can pets transmit corona virus?", "When did Carl Wilhelm Scheele discover oxygen?"),
    *("termination without notice", "Kafka and Milvus", "who am i", "mold in the apartment"),
    "What about the Wohnung?",
]
WITHOUT_LANGUAGE = [
    *("Oder", "Can Yaman", "Will Smith", "Wo Fat", "Wen Jiabao", "Nur Ahmad", "The Who", "Michael Jordan"),
    *("Angela Merkel", "Samsung", "Jung", "Google Maps", "Bosch GmbH", "BGB", "IST", "UND", "DAS", "MIT"),
    *("Das Keyboard", "Mietvertrag", "Frist?", "kafka", "Kafka Streams", "Python", "git push", "def main():"),
    *("SELECT * FROM users", "x = und(y)", "nginx.conf", "FREKI_PROFILE", "GPT-4", "HTTP 404", "ISO 27001"),
    *("api key", "Was Kafka slow?", "und and", "cp --und"),
]


@pytest.mark.parametrize("text", GERMAN_QUERIES)
def test_a_short_german_question_is_german(text: str) -> None:
    assert detect_language(text) == "de"


@pytest.mark.parametrize("text", ENGLISH_QUERIES)
def test_a_short_english_question_is_english(text: str) -> None:
    assert detect_language(text) == "en"


@pytest.mark.parametrize("text", WITHOUT_LANGUAGE)
def test_names_numbers_code_and_single_nouns_have_none(text: str) -> None:
    assert detect_language(text) == UNDETERMINED


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("huur of koop", "nl"),
        ("Wie is hij?", "nl"),
        ("Co to jest?", "pl"),
        ("Museu das Artes", "pt"),
        ("Qui paie ?", "fr"),
    ],
)
def test_a_short_question_in_another_language_keeps_it(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_a_short_text_may_be_in_what_the_model_finds_likely() -> None:
    assert not may_be_in("Wer haftet?", "en")
    assert may_be_in("huur of koop en wie", "nl")
    assert detect_language("Wer haftet?", candidates=("en", "fr")) in {"en", "fr", UNDETERMINED}


@given(
    names=st.lists(st.sampled_from(["Kafka", "BGB", "Ben", "GPT-4", "535", "Streams", "Oder"]), min_size=1, max_size=4),
    word=st.sampled_from(["who", "when", "and", "not", "without"]),
    end=st.sampled_from(["", "?"]),
)
def test_names_with_an_english_word_are_not_german(names: list[str], word: str, end: str) -> None:
    assert detect_language(" ".join([names[0], word, *names[1:]]) + end) != "de"


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


def test_threads_that_need_the_model_at_once_load_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    load, loads, together = LanguageIdentifier.from_model_file, Counter[str](), Barrier(3, timeout=60)

    def counted(path: str, **options: bool) -> LanguageIdentifier:
        loads[path] += 1
        return load(path, **options)

    def detect() -> str:
        together.wait()
        return detect_language("Wer haftet für Schäden?")

    monkeypatch.setattr(LanguageIdentifier, "from_model_file", counted)
    module._loaded.cache_clear()
    with ThreadPoolExecutor(3) as threads:
        found = [each.result() for each in [threads.submit(detect) for _ in range(3)]]

    assert found == ["de"] * 3
    assert loads.total() == 1
