"""Abbreviations are explained as the document does, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.define import LINE_CHARS, explain, find_definitions, used
from freki.schemas import Definition

UVP = Definition(short="UVP", long="Umweltverträglichkeitsprüfung")
AN = Definition(short="AN", long="Auftragnehmer")


def found(text: str) -> dict[str, str]:
    return {definition.short: definition.long for definition in find_definitions(text)}


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("Die Umweltverträglichkeitsprüfung (UVP) ist Teil", "UVP", "Umweltverträglichkeitsprüfung"),
        ("Der Auftragnehmer (im Folgenden: AN) haftet.", "AN", "Auftragnehmer"),
        ("Der Auftraggeber (nachfolgend „AG“) zahlt.", "AG", "Auftraggeber"),
        ("uses Transport Layer Security (TLS) or", "TLS", "Transport Layer Security"),
        ("the OSCI\n(Online Services Computer Interface).", "OSCI", "Online Services Computer Interface"),
        ("nach dem Gesetz gegen Wettbewerbsbeschränkungen (GWB)", "GWB", "Gesetz gegen Wettbewerbsbeschränkungen"),
        ("# Verordnung über Abwasser (Abwasserverordnung - AbwV)", "AbwV", "Abwasserverordnung"),
        ("das Bundes-Immissionsschutzgesetz (BImSchG)", "BImSchG", "Bundes-Immissionsschutzgesetz"),
        ("eine Gesellschaft mit beschränkter Haftung (GmbH)", "GmbH", "Gesellschaft mit beschränkter Haftung"),
        ("ein Kraftfahrzeug (Kfz) führen", "Kfz", "Kraftfahrzeug"),
        ("Es gilt:\n\nUVP = Umweltverträglichkeitsprüfung\n", "UVP", "Umweltverträglichkeitsprüfung"),
        ("* **AST**: abstract syntax tree, as parsed", "AST", "abstract syntax tree"),
        ("am Institut für Angewandte Informatik (IAI)", "IAI", "Institut für Angewandte Informatik"),
        ("the global\ninterpreter lock (GIL)", "GIL", "global interpreter lock"),
        ("des Umweltbundesamts (UBA; vgl. UBA 2019)", "UBA", "Umweltbundesamts"),
        ("die „Allgemeinen Geschäftsbedingungen“ (AGB)", "AGB", "Allgemeinen Geschäftsbedingungen"),
        ("a ``Read-Eval-Print Loop`` (REPL)", "REPL", "Read-Eval-Print Loop"),
    ],
)
def test_what_is_explained_is_found(text: str, short: str, long: str) -> None:
    assert found(text) == {short: long}


@pytest.mark.parametrize(
    "text",
    [
        "die Verordnung (EU) Nr. 575/2013",
        "im Rahmen einer Verordnung (EU)",
        "im Bundesgesetzblatt (BGBl. I S. 123)",
        "der Vorschriften des Titels (IV)",
        "class AbstractBase(ABC):",
        "Das Ergebnis (OK) wird gezeigt.",
        "Der Satz endet. Umwelt (UVP)",
        "die Information (IAI)",
        "connector punctuations (Pc)",
        "der Vertrag. Prüfung (VP)",
        "ein Wort (Wort)",
        "NotGiven = NotGivenType",
        "Mypy: Mypy at-type-annotation",
        "(UVP)",
        "",
    ],
)
def test_what_does_not_fit_letter_by_letter_is_left_alone(text: str) -> None:
    assert found(text) == {}


def test_the_first_of_several_explanations_counts() -> None:
    text = "Das Erstellungsdatum (ED) zählt. Später: die Einzeldatei (ED)."

    assert found(text) == {"ED": "Erstellungsdatum"}


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("Die UVP-Pflicht besteht.", True),
        ("Ohne UVP, kein Bau.", True),
        ("Die UVPs und die UVPG.", False),
        ("die uvp", False),
        ("", False),
    ],
)
def test_a_short_form_is_used_as_a_word_or_in_one_with_hyphens(text: str, uses: bool) -> None:  # noqa: FBT001 - a parameter
    assert used([UVP], text) == ([UVP] if uses else [])


def test_a_text_is_told_what_its_short_forms_mean_in_the_order_of_use() -> None:
    line = explain([UVP, AN], "Der AN veranlasst die UVP.")

    assert line == "AN = Auftragnehmer; UVP = Umweltverträglichkeitsprüfung"


def test_a_text_that_has_the_long_form_needs_no_explanation() -> None:
    assert explain([UVP, AN], "Die Umweltverträglichkeits-\nprüfung: UVP. Der AN ist\nAuftragnehmer.") == (
        "UVP = Umweltverträglichkeitsprüfung"
    )


def test_explanations_that_do_not_fit_are_left_out_whole() -> None:
    long = Definition(short="LX", long="L" * 190)

    assert explain([long, UVP], "LX und UVP") == f"LX = {long.long}"
    assert explain([UVP, long], "UVP und LX") == "UVP = Umweltverträglichkeitsprüfung"


@pytest.mark.parametrize(
    "text",
    [
        f" A{'a' * 9}B (a{'a' * 90})",
        "A&" * 100_000,
        f" (kurz{' ' * 200_000}",
        f"AB{chr(9) * 200_000}\n",
    ],
)
def test_no_text_takes_more_than_its_length_in_time(text: str) -> None:
    assert found(text) == {}


@given(text=st.text(alphabet="AaBbUuVvPpß ()-=:\n.„“", max_size=200))
def test_what_is_found_begins_alike_and_is_longer_in_any_text(text: str) -> None:
    for short, long in found(text).items():
        assert long[0].casefold() == short[0].casefold()
        assert len(long) > len(short)
        assert long == " ".join(long.split())


@given(
    definitions=st.lists(st.builds(Definition, short=st.from_regex(r"\A[A-Z]{2,4}\Z"), long=st.text(min_size=1))),
    text=st.text(alphabet="ABC -\n", max_size=300),
)
def test_an_explanation_is_one_line_of_bounded_length(definitions: list[Definition], text: str) -> None:
    assert len(explain(definitions, text)) <= LINE_CHARS


@given(before=st.text(alphabet="abc \n", max_size=80), after=st.text(alphabet="abc \n", max_size=80))
def test_an_edit_elsewhere_changes_no_explanation(before: str, after: str) -> None:
    definition = "Die Umweltverträglichkeitsprüfung (UVP) ist nötig."

    definitions = find_definitions(f"{before}\n\n{definition}\n\n{after}")

    assert explain(definitions, "Ohne UVP kein Bau.") == "UVP = Umweltverträglichkeitsprüfung"
