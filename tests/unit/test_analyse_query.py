import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import analyse_query, is_bare_citation, levels_of, says_nothing, searchable_text
from freki.schemas import QueryType

FACTUAL, AGGREGATIVE, COMPARATIVE = QueryType.FACTUAL, QueryType.AGGREGATIVE, QueryType.COMPARATIVE
PROCEDURAL, RELATIONAL, TEMPORAL = QueryType.PROCEDURAL, QueryType.RELATIONAL, QueryType.TEMPORAL


def _by_rule(query_type: QueryType) -> QueryType | None:
    """Facts have no rule."""
    return None if query_type is FACTUAL else query_type


@pytest.mark.parametrize(
    ("text", "query_type"),
    [
        ("Wer ist Eigentümer des Grundstücks?", FACTUAL),
        ("Was bedeutet Verzug?", FACTUAL),
        ("Wie hoch ist die Kaution?", FACTUAL),
        ("Wie viele Punkte gab die Verteidigung ab?", FACTUAL),
        ("Gilt das für alle Mitarbeiter?", FACTUAL),
        ("Wo liegt Bielefeld?", FACTUAL),
        ("Wo hat Peter Kühne gearbeitet?", AGGREGATIVE),
        ("Für welche Firmen war Peter Kühne tätig?", AGGREGATIVE),
        ("Nenne sämtliche Fristen des Vertrags", AGGREGATIVE),
        ("Welche Pflichten hat der Mieter alle?", AGGREGATIVE),
        ("Welche Tarife gibt es?", AGGREGATIVE),
        ("Übersicht der Leistungen", AGGREGATIVE),
        ("Fasse den Bericht von 2023 zusammen", AGGREGATIVE),
        ("Was ist der Unterschied zwischen Miete und Pacht?", COMPARATIVE),
        ("Vergleiche alle Tarife", COMPARATIVE),
        ("Ist Holz besser als Stein?", COMPARATIVE),
        ("Wer ist älter als 18 Jahre?", FACTUAL),
        ("Wie hängt die Miete mit dem Index zusammen?", RELATIONAL),
        ("Welchen Einfluss hat Regen auf den Ertrag?", RELATIONAL),
        ("Wie kündige ich meinen Mietvertrag?", PROCEDURAL),
        ("Wie kann man sich anmelden?", PROCEDURAL),
        ("Was muss ich bei Schimmel tun?", PROCEDURAL),
        ("Anleitung zur Installation", PROCEDURAL),
        ("Wann endet die Frist?", TEMPORAL),
        ("In welchem Jahr wurde die Firma gegründet?", TEMPORAL),
        ("Wie lange läuft der Vertrag?", TEMPORAL),
        ("Welche Kündigungsfrist gilt?", TEMPORAL),
    ],
)
def test_german_questions_are_read(text: str, query_type: QueryType) -> None:
    assert analyse_query(text, language="de").query_type is _by_rule(query_type)


@pytest.mark.parametrize(
    ("text", "query_type"),
    [
        ("Who owns the land?", FACTUAL),
        ("How many points did the Panthers allow?", FACTUAL),
        ("Where has Peter Kühne worked?", AGGREGATIVE),
        ("List all employers of Peter Kühne", AGGREGATIVE),
        ("Which options are there?", AGGREGATIVE),
        ("Summarise the report", AGGREGATIVE),
        ("What is the difference between rent and lease?", COMPARATIVE),
        ("postgres vs mysql", COMPARATIVE),
        ("How does rain affect the yield?", RELATIONAL),
        ("How do I reset my password?", PROCEDURAL),
        ("steps to install the agent", PROCEDURAL),
        ("When does the contract end?", TEMPORAL),
        ("What year was it founded?", TEMPORAL),
    ],
)
def test_english_questions_are_read(text: str, query_type: QueryType) -> None:
    assert analyse_query(text, language="en").query_type is _by_rule(query_type)


@pytest.mark.parametrize(
    "text", ["§ 573c Abs. 1 BGB", "Sec. 551 BGB", "Art. 8 und 9 GG", "?", "§", "„“", "…", "x" * 5000]
)
def test_mere_citations_and_signs_are_no_lists(text: str) -> None:
    assert analyse_query(text, language="und").query_type is FACTUAL


def test_a_citation_beside_a_word_of_a_rule_has_its_type() -> None:
    assert analyse_query("§ 5 BGB im Unterschied zu § 6 BGB", language="de").query_type is COMPARATIVE


@pytest.mark.parametrize("text", ["C", "C++", "AAA", "www", "5", "1111", "ü", "水", "Was?", "§ 1", "x" * 50 + " y"])
def test_a_word_or_a_number_says_something(text: str) -> None:
    assert not says_nothing(text)


def test_a_question_in_no_certain_language_is_read_by_all_rules() -> None:
    assert analyse_query("Übersicht Tarife", language="und").query_type is AGGREGATIVE
    assert analyse_query("tariff overview", language="und").query_type is AGGREGATIVE


@pytest.mark.parametrize("text", ["Übersicht", "U\u0308bersicht", "ÜBERSICHT"])
def test_case_and_composition_do_not_matter(text: str) -> None:
    assert analyse_query(text, language="de").query_type is AGGREGATIVE


def test_only_lists_look_at_whole_documents() -> None:
    assert levels_of(AGGREGATIVE) == (0, 1, 2)
    assert all(levels_of(kind) == (1, 2) for kind in QueryType if kind is not AGGREGATIVE)


@pytest.mark.parametrize("text", ["Kündigung", "§ 535 BGB", "Peter Kühne Lebenslauf", "DIN 18040-1"])
def test_up_to_three_words_are_keywords(text: str) -> None:
    assert analyse_query(text, language="de").keyword


@pytest.mark.parametrize("text", ["Wer haftet", "haftet er?", "Kündigung des alten Vertrags", "???", "who pays"])
def test_questions_and_longer_texts_are_not(text: str) -> None:
    assert not analyse_query(text, language="de").keyword


def test_a_short_question_is_searched_whole() -> None:
    assert searchable_text("  Wer\n haftet  wofür? ") == "Wer haftet wofür?"


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ("WAS KOSTET EIN ZWISCHENZEUGNIS?", "was kostet ein zwischenzeugnis?"),
        ("GELTUNGSBEREICH VON ART. 5 DSGVO", "geltungsbereich von art. 5 dsgvo"),
        ("ABLEHNUNGSBESCHEID 4-K-12/26 NACH § 70 ABS. 1", "ablehnungsbescheid 4-K-12/26 nach § 70 abs. 1"),
        ("ANFORDERUNGEN DIN EN ISO 9001:2015", "anforderungen DIN EN ISO 9001:2015"),
        ("BEDIENUNG DES KX-200 MIT TEST_CASE", "bedienung des KX-200 mit TEST_CASE"),
        ("WIE GROß IST DIE VERGRÖßERUNG IM JAHR 2024?", "wie groß ist die vergrößerung im jahr 2024?"),
    ],
)
def test_a_query_in_capitals_is_searched_in_small_letters(text: str, searched: str) -> None:
    assert searchable_text(text) == searched


@pytest.mark.parametrize(
    "text", ["DSGVO", "BAföG ANTRAGSFORMULAR", "DIN EN ISO 9001", "SGB II UND SGB XII", "12345678"]
)
def test_names_in_capitals_stay(text: str) -> None:
    assert searchable_text(text) == text


def test_of_a_long_text_beginning_end_and_questions_stay() -> None:
    filler = "Das ist ein Satz ohne Belang. " * 500
    text = f"Bitte lies den Vertrag. {filler}\nWelche Frist gilt für die Kündigung?\n{filler} Danke für die Antwort"

    searched = searchable_text(text, max_characters=600)

    assert searched.startswith("Bitte lies den Vertrag.")
    assert " Welche Frist gilt für die Kündigung? " in searched
    assert searched.endswith("Danke für die Antwort")


def test_later_questions_come_before_earlier_ones() -> None:
    text = "x " * 1000 + "".join(f"Frage {i} lautet wie?\n" for i in range(100)) + "y " * 1000

    searched = searchable_text(text, max_characters=200)

    assert "Frage 99 lautet wie?" in searched
    assert "Frage 0 lautet wie?" not in searched
    assert searched.index("Frage 98") < searched.index("Frage 99")


def test_an_address_asks_nothing() -> None:
    assert "a=1" not in searchable_text("x " * 500 + "https://example.org/?a=1 " + "y " * 500, max_characters=100)


def test_too_little_room_is_refused() -> None:
    with pytest.raises(ValueError, match="max_characters"):
        searchable_text("a", max_characters=1)


long_texts = st.lists(st.sampled_from(["Wort ", "Wer? ", "\n", "Satz. ", "?", "langeswort" * 30, " "]), max_size=80)


@given(pieces=long_texts, max_characters=st.integers(16, 300))
def test_what_is_searched_is_bounded_and_one_line(pieces: list[str], max_characters: int) -> None:
    searched = searchable_text("".join(pieces), max_characters=max_characters)

    assert len(searched) <= max_characters
    assert searched == " ".join(searched.split())


@given(text=st.text(max_size=200), language=st.sampled_from(["de", "en", "und"]))
def test_every_text_is_read_as_something(text: str, language: str) -> None:
    reading = analyse_query(text, language=language)

    assert reading == analyse_query(text, language=language)
    assert reading.query_type is not FACTUAL or says_nothing(text) or is_bare_citation(text)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "part", ["wie kann ", "welche a", "wer ", "a", "of the two ", "was ", "?", "hängt ", "\u0301", " "]
)
@pytest.mark.parametrize("language", ["de", "und"])
def test_a_million_characters_are_read_like_others(part: str, language: str) -> None:
    text = part * (1_000_000 // len(part))

    assert not analyse_query(text, language=language).keyword or part in {"a", "\u0301"}
    assert len(searchable_text(text)) <= 2000
