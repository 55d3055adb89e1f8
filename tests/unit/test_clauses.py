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
        ("see section I above", []),
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
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Ziffer 5.2 des Rahmenvertrags", {1}),
        ("Ziffer 5.2 im Mietvertrag", {0}),
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


@given(st.text(), st.permutations(PLACES))
def test_any_query_has_places(text: str, places: list[CitedPlace]) -> None:
    assert clause_places(text, places) <= set(range(len(places)))


@given(st.permutations(PLACES))
def test_a_document_that_is_named_counts_wherever_its_places_stand(places: list[CitedPlace]) -> None:
    assert clause_places("Ziffer 5.2 des Rahmenvertrags", places) == {places.index(PLACES[1])}


def test_long_texts_take_linear_time() -> None:
    text = "Ziffer " * 50_000 + "1." * 50_000

    assert not list(cited_clauses(text))
    assert not clause_places("Ziffer 1.1", [CitedPlace("a", text, (text,), f"{' ' * 50_000}x")])
