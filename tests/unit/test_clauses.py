import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import CitedPlace, analyse_query, cited_clauses, clause_places


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("Was regelt Ziffer 5.2 des Rahmenvertrags?", ["5.2"]),
        ("Nr. 6.3 und Ziff. 4.1.2", ["6.3", "4.1.2"]),
        ("Abschnitt\u00a02.2", ["2.2"]),
        ("Klausel 7", ["7"]),
        ("What does clause 7.1 of the lease say?", ["7.1"]),
        ("see section 4.2 and chapter 3", ["4.2", "3"]),
        ("TOP 2.1 der Sitzung", ["2.1"]),
        ("Ziffer IV, Nr. II und Abschnitt V", ["IV", "II", "V"]),
        ("Nummern 2 und 4 der Richtlinie", ["2", "4"]),
        ("Ziffern 5.1 bis 5.3, Kapitel 2 und 3", ["5.1", "5.2", "5.3", "2", "3"]),
        ("Rn. 12-14, Rz. 7 f. und Tz. 9 ff.", ["12", "13", "14", "7", "8", "9"]),
        ("Textziffer 3, Randnummern 4 und 1012", ["3", "4", "1012"]),
        ("Tarifstelle 4.2", ["4.2"]),
        ("Nach Nr. 3 der Anlage 2", ["3"]),
        ("Dienstanweisung Ziff. 3", ["3"]),
        ("Schritt 5 oder steps 7 to 8", ["5", "7", "8"]),
        ("paragraph 12, clauses 7.1 and 7.2", ["12", "7.1", "7.2"]),
        ("TOP 3 der Sitzung", ["3"]),
        ("§ 5.2 des Vertrags, §§ 6.1 und 6.3", ["5.2", "6.1", "6.3"]),
        ("§ 433. Danach, § 5 a, 5.2 Prozent", []),
        ("Abschnitt 3", ["3"]),
        ("see section I above", []),
        ("Kapitel 2 und 3 Seiten", ["2"]),
        ("Formular Nr. 3", []),
        ("Amtsblatt Nr. 3/2024", []),
        ("Hausnummer 3", []),
        ("Top 3 Gründe", []),
        ("Schritt für Schritt 3 Wochen, in 5 Schritten", []),
        ("Nr. 12345", []),
        ("Stand Nr. 6.3.2023", []),
        ("§ 3 Abs. 2 Nr. 1 BGB", []),
        ("Punkt 3 der Liste", []),
        ("Python 3.11", []),
        ("Kapitel 30%", []),
        ("Nummer 1.250,50", []),
    ],
)
def test_clauses_are_told_by_the_word_before_their_number(text: str, clauses: list[str]) -> None:
    assert list(cited_clauses(text)) == clauses


@pytest.mark.parametrize(
    ("text", "cites"),
    [
        ("§ 573c BGB", True),
        ("Was mache ich bei Schritt 5?", True),
        ("Wo finde ich Formular Nr. 3?", False),
        ("Was regelt Ziffer 5.2?", True),
        ("clause 7", True),
        ("Python 3.11", False),
        ("Frist", False),
    ],
)
def test_the_analysis_says_whether_a_query_cites_a_norm_or_a_clause(text: str, cites: bool) -> None:  # noqa: FBT001 - a parameter
    assert analyse_query(text, language="de").cites is cites


PLACES = (
    CitedPlace(
        "b", "Mietvertrag", ("Mietvertrag", "5. Nebenkosten"), "5.1 Sie sind zu zahlen.\n\n5.2 Die Abrechnung folgt."
    ),
    CitedPlace(
        "a", "Rahmenvertrag Softwarepflege", ("5. Haftung",), "5.1 Sie ist beschränkt.\n\n5.2 Höchstens 50.000 Euro."
    ),
    CitedPlace(
        "a", "Rahmenvertrag Softwarepflege", ("6. Laufzeit", "6.1 Beginn"), "1. Mai\n2. Juni\n\n15.2 gilt entsprechend"
    ),
    CitedPlace("a", "Rahmenvertrag Softwarepflege", ("Kapitel 7: Ende",), "Siehe Ziffer 5.2 und die\n  5.3. Frist"),
    CitedPlace("c", "Vereinbarung AZV", ("IV. Verfahren", "§ 8 Antrag"), "Text."),
    CitedPlace("d", "Vereinbarung BZV", ("**IV Verfahren**",), "Text."),
    CitedPlace("e", "Pachtvertrag", ("§ 9.1 Zweck",), "§ 9.2 Die Fläche dient der Landwirtschaft."),
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Ziffer 5.2 des Rahmenvertrags", {1}),
        ("Ziffer 5.2 im Mietvertrag", {0}),
        ("§ 5.2 des Rahmenvertrags", {1}),
        ("§ 9.1", {6}),
        ("Ziffer 9.2", {6}),
        ("Ziffer 5.2", {0}),
        ("Nr. 5.3", {3}),
        ("Abschnitt 6.1", {2}),
        ("Klausel 6 des Rahmenvertrags", {2}),
        ("Kapitel 7", {3}),
        ("Kapitel 2", set()),
        ("Kapitel 8", set()),
        ("Abschnitt IV", {4}),
        ("Ziffer IV der BZV", {5}),
        ("Ziffer V", set()),
        ("Ziffer 5.20", set()),
        ("Ziffer 5.2 und 6.1 des Rahmenvertrags, Ziffer 6.1", {1, 2}),
        ("Die Haftung", set()),
    ],
)
def test_a_place_holds_a_clause_at_the_beginning_of_a_heading_or_line(query: str, found: set[int]) -> None:
    assert clause_places(query, PLACES) == found


PROCEDURES = (
    CitedPlace("a", "Richtlinie Wohnen", ("3. Verfahren",), "Anträge stellen Sie schriftlich."),
    CitedPlace("a", "Richtlinie Wohnen", ("4. Ende",), "1. Antrag\n2. Prüfung\n3. Bescheid"),
    CitedPlace("b", "Anleitung Passausgabe", ("Ablauf",), "Schritt 3: Bezahlen\n\n4. Gebühr\n5\\. Abholung"),
    CitedPlace("b", "Anleitung Passausgabe", ("Schritt 2 – Foto",), "Biometrisch."),
    CitedPlace("c", "Urteil VG 7 K 12/23", ("Gründe",), "12\nDie Klage ist zulässig.\n\n[13] Sie ist begründet."),
    CitedPlace(
        "d", "Gebührenverzeichnis", ("Anlage 2", "Tarif"), "| Nr. | Was |\n| --- | --- |\n| 3 | Pass |\n| 4.2 | Visum |"
    ),
    CitedPlace("e", "Handbuch Kasse", ("7 Abschluss",), "(6) Text.\n\n6 Text."),
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Nummern 3 und 4 der Richtlinie", {0, 1}),
        ("Ziffer 3", {0}),
        ("Abschnitt 3", {0}),
        ("section 3", {0}),
        # Items count where no heading has the number.
        ("Nummer 2 der Richtlinie", {1}),
        ("Abschnitt 2 der Richtlinie", set()),
        ("Was mache ich bei Schritt 3?", {2}),
        ("Schritt 2", {3}),
        ("Schritte 4 und 5 der Passausgabe", {2}),
        ("Schritt 5 der Anleitung", {2}),
        # The item of any document but the best is what a query calls.
        ("Schritt 5", set()),
        ("Was steht in Rn. 12 des Urteils?", {4}),
        ("Rn. 13 des Urteils", {4}),
        ("Rn. 13", set()),
        ("paragraph 12 of the Urteil", {4}),
        ("Tarifstelle 4.2", {5}),
        ("Tarifstelle 3 des Gebührenverzeichnisses", {5}),
        ("section 7 of the Handbuch", {6}),
        ("Nummer 6 des Handbuchs", {6}),
        ("Formular Nr. 3", set()),
    ],
)
def test_numbers_without_points_count_near_what_the_query_is_about(query: str, found: set[int]) -> None:
    assert clause_places(query, PROCEDURES) == found


def test_a_section_of_a_law_is_no_clause_of_another_text() -> None:
    law = CitedPlace("f", "Gesetz", ("§ 7 Frist",), "Text.")

    assert clause_places("Paragraph 7", [law, *PROCEDURES]) == set()
    assert clause_places("section 7 of the Handbuch", PROCEDURES[6:]) == {0}


def test_a_clause_of_a_division_stands_within_it() -> None:
    assert clause_places("Nr. 3 der Anlage 2", PROCEDURES, inside=[5]) == {5}
    assert clause_places("Nr. 9 der Anlage 2", PROCEDURES, inside=[5]) == set()
    assert clause_places("Kapitel 3", PROCEDURES, inside=[5]) == {0}


@pytest.mark.parametrize(
    ("query", "found"), [("Tarifstelle 4.2", {5}), ("Nummer 3", set()), ("Schritt 5 der Anleitung", set())]
)
def test_what_may_count_something_is_no_clause_for_sure(query: str, found: set[int]) -> None:
    assert clause_places(query, PROCEDURES, surely=True) == found


@given(
    st.text()
    | st.sampled_from(["Ziffer 5.2", "Abschnitt IV", "Nr. 3 der Anlage 2", "Nummern 2 und 4", "section 3(2)"]),
    st.lists(st.sampled_from(PLACES)),
)
def test_any_query_has_places(text: str, places: list[CitedPlace]) -> None:
    assert clause_places(text, places) <= set(range(len(places)))


@given(st.permutations(PLACES))
def test_a_document_that_is_named_counts_wherever_its_places_stand(places: list[CitedPlace]) -> None:
    assert clause_places("Ziffer 5.2 des Rahmenvertrags", places) == {places.index(PLACES[1])}


def test_long_texts_take_linear_time() -> None:
    text = "Ziffer " * 50_000 + "1." * 50_000

    assert not list(cited_clauses(text))
    assert not clause_places("Ziffer 1.1", [CitedPlace("a", text, (text,), f"{' ' * 50_000}x")])
