import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import names_document, words_of

ACCESS = "Gesetz zur Regelung des Zugangs zu Informationen des Bundes"


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("Gebühren IFG", f"{ACCESS} (IFG)"),
        ("Wie schnell muss auf eine IFG-Anfrage geantwortet werden?", f"{ACCESS} (IFG)"),
        ("Gebühren IFG", f"{ACCESS} (Informationsfreiheitsgesetz - IFG)"),
        ("Was kostet es nach dem Informationsfreiheitsgesetz?", f"{ACCESS} (Informationsfreiheitsgesetz – IFG)"),
        ("Gebühren des Informationsfreiheitsgesetzes", f"{ACCESS} (Informationsfreiheitsgesetz)"),
        ("Gebühren IFG", "IFG"),
        ("Umzug BUKG", "Bundesumzugskostengesetz (BUKG 1990)"),
        ("Umzug BUKG 1990", "Bundesumzugskostengesetz (BUKG 1990)"),
        ("Vorschuss SGB 1", "Sozialgesetzbuch Erstes Buch (SGB I)"),
        ("Vorschuss SGB I", "Sozialgesetzbuch Erstes Buch (SGB 1)"),
        ("Wann gilt die DV-MA?", "Dienstvereinbarung mobile Arbeit (DV MA)"),
        ("line length in PEP 8", "PEP 8"),
    ],
)
def test_a_document_is_named_by_its_short_name(query: str, title: str) -> None:
    assert names_document(words_of(query), ["handbook.md", title])


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("Gebühren VIG", f"{ACCESS} (IFG)"),
        ("Wo steht das im BGB?", "BGBl"),
        ("Vorschuss SGB X", "Sozialgesetzbuch Erstes Buch (SGB I)"),
        ("Vorschuss SGB", "Sozialgesetzbuch Erstes Buch (SGB I)"),
        ("Umzug BUKG 2005", "Bundesumzugskostengesetz (BUKG 1990)"),
        ("Was regelt das Gesetz?", "Gesetz über Zugang (Gesetz)"),
        ("Was ist der Anhang?", "Gebührenordnung (Anhang)"),
        ("Wer prüft das Verfahren am Gericht?", "Ein Leitfaden (neues Verfahren)"),
        ("API errors", "How the API reports errors"),
        ("", f"{ACCESS} (IFG)"),
        ("Gebühren", ""),
    ],
)
def test_other_documents_are_not_named(query: str, title: str) -> None:
    assert not names_document(words_of(query), [title])


@given(st.text(max_size=40), st.from_regex(r"[A-Z]{2,6}", fullmatch=True), st.text(max_size=40))
def test_whatever_stands_before_the_short_name_it_is_named_where_the_query_has_it(
    name: str, short: str, query: str
) -> None:
    assert names_document(words_of(f"{query} {short}"), [f"{name} ({short})"])


@given(st.text(), st.text())
def test_any_title_may_be_asked_for(query: str, title: str) -> None:
    assert names_document(words_of(query), [title, title]) == names_document(words_of(query), [title])
