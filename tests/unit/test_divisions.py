import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import CitedPlace, analyse_query, cited_divisions, division_levels


@pytest.mark.parametrize(
    ("text", "divisions"),
    [
        ("Was steht in Anlage 3 der Gebührenordnung?", [("anlage", "3")]),
        ("Anlagen 1 zu § 5", [("anlage", "1")]),
        ("Anl. 2a\u00a0HBauO", [("anlage", "2a")]),
        ("Anhang II der Richtlinie", [("anhang", "2")]),
        ("Annex IV and Appendix B", [("annex", "4"), ("appendix", "B")]),
        ("Abschnitt V", [("abschnitt", "5")]),
        ("der II. Teil, 2. Teil und Zweite Teil", [("teil", "2")] * 3),
        ("des Siebenten Abschnitts", [("abschnitt", "7")]),
        ("siebter Abschnitt", [("abschnitt", "7")]),
        ("Kap. IV, Teil B", [("kapitel", "4"), ("teil", "B")]),
        ("in Unterabschnitt 3", [("unterabschnitt", "3")]),
        ("Buch 2 Titel 1 Untertitel 4", [("buch", "2"), ("titel", "1"), ("untertitel", "4")]),
        ("am 12.3. Anlage 4", [("anlage", "4")]),
        ("Welche Anlage braucht eine Genehmigung?", []),
        ("Anlagen 1 und 2", [("anlage", "1"), ("anlage", "2")]),
        ("Anlagen 1, 2a bis 4", [("anlage", "1"), ("anlage", "2a"), ("anlage", "4")]),
        ("Anhänge II bis IV", [("anhang", "2"), ("anhang", "3"), ("anhang", "4")]),
        ("Erster und Zweiter Abschnitt", [("abschnitt", "1"), ("abschnitt", "2")]),
        ("Teil 1 und 2 Kinder", [("teil", "1")]),
        ("Anlagen I bis", [("anlage", "1")]),
        ("Anlage Ort", []),
        ("Abschnitt 2.2", []),
        ("Teil 50%, Teil 1,5", []),
        ("Teilnahme 3", []),
        ("Urteil 3, Vorteil B", []),
        ("Am 2. Teilnehmer", []),
    ],
)
def test_divisions_are_told_by_a_word_and_a_number(text: str, divisions: list[tuple[str, str]]) -> None:
    assert list(cited_divisions(text)) == divisions
    assert bool(divisions) <= analyse_query(text, language="de").cites


NAME = "Verordnung über Gebühren (GebV)"
PLACES = [
    CitedPlace("a", NAME, (NAME, "§ 3 Gebühr"), "Sie ergibt sich aus den in\nAnlage 1 genannten Sätzen."),
    CitedPlace("a", NAME, (NAME, "Anlage 1 (zu § 3)", "2. Auskünfte"), "Auskünfte kosten nichts."),
    CitedPlace("a", NAME, (NAME, "§ 4 Ende"), "# § 5\n\n# Anlage 2 Muster\n\nAnlage 3 (zu § 4)\n\nText."),
    CitedPlace("b", "Bauordnung", ("Zweiter Abschnitt - Bauten", "§ 3 Höhe"), "(1) Text."),
    CitedPlace("b", "Bauordnung", ("Anlage 1 Muster",), "Text."),
    CitedPlace("c", "Satzung ÖV", ("II. Abschnitt", "III. Teil: Ende"), "Text."),
    CitedPlace("c", "Satzung ÖV", ("**Anlage I**",), "Text."),
]


@pytest.mark.parametrize(
    ("query", "levels"),
    [
        ("Was steht in Anlage 1 der GebV?", [0, 1, 0, 0, 0, 0, 0]),
        ("Anlage 1 der Bauordnung", [0, 0, 0, 0, 1, 0, 0]),
        ("Anlage I ÖV", [0, 0, 0, 0, 0, 0, 1]),
        ("Anlage 1", [0, 1, 0, 0, 0, 0, 0]),
        ("Anlage 2 GebV", [0, 0, 1, 0, 0, 0, 0]),
        ("Anlage 3 GebV", [0, 0, 1, 0, 0, 0, 0]),
        ("Abschnitt 2 der Bauordnung", [0, 0, 0, 1, 0, 0, 0]),
        ("Abschnitt II", [0, 0, 0, 1, 0, 0, 0]),
        ("Abschnitt 2, Teil 3 der ÖV", [0, 0, 0, 0, 0, 2, 0]),
        # A law that is named in short is none of those without that name.
        ("Anlage 1 HGB", [0] * 7),
        ("Was steht in Anlage 1 zum HGB?", [0] * 7),
        ("Anlage 1 (HGB)", [0] * 7),
        ("Anlage 1 und Anlage 3 GebV", [0, 1, 1, 0, 0, 0, 0]),
        ("Anlagen 1 bis 3 GebV", [0, 1, 2, 0, 0, 0, 0]),
        ("Anlagen 1 bis 3 HGB", [0] * 7),
        ("Erster und Zweiter Abschnitt HGB", [0] * 7),
        ("Anlage 1 zu § 3 HGB", [0] * 7),
        ("Anlage 1 (zu § 3 Abs. 2) GebV", [0, 1, 0, 0, 0, 0, 0]),
        ("Anlage 1 zu § 3 ÖV", [0, 0, 0, 0, 0, 0, 1]),
        ("Anlagen 1 u. 3 GebV", [0, 1, 1, 0, 0, 0, 0]),
        ("Anlage 1 PDF-Datei", [0, 1, 0, 0, 0, 0, 0]),
        ("Anhang 1", [0] * 7),
        ("Anlage 4", [0] * 7),
        ("Wie hoch darf ich bauen?", [0] * 7),
    ],
)
def test_a_place_is_of_a_division_that_a_heading_begins_with(query: str, levels: list[int]) -> None:
    assert division_levels(query, PLACES) == levels


@given(st.text(), st.permutations(PLACES))
def test_any_query_has_levels(text: str, places: list[CitedPlace]) -> None:
    assert len(division_levels(text, places)) == len(places)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["Anlage ", "1. ", "erster ", "# ", "Teil 1 ", "I", "\n# "])
def test_long_texts_take_linear_time(part: str) -> None:
    text = part * (200_000 // len(part))

    assert len(list(cited_divisions(text))) <= len(text)
    assert len(division_levels("Anlage 1", [CitedPlace("a", text, (text,), text)])) == 1
