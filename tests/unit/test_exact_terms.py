import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import exact_terms, holds, phrases_of
from freki.schemas import ExactKind
from tests.unit.following_sections import FOLLOWING_SECTIONS

PHRASE, SECTION, STANDARD = ExactKind.PHRASE, ExactKind.SECTION, ExactKind.STANDARD
QUANTITY, IDENTIFIER = ExactKind.QUANTITY, ExactKind.IDENTIFIER


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Was heißt „höhere Gewalt“ hier?", [(PHRASE, "höhere Gewalt")]),
        ("What is “force majeure”?", [(PHRASE, "force majeure")]),
        ('"connection reset" and "broken pipe"', [(PHRASE, "connection reset"), (PHRASE, "broken pipe")]),
        ("»Treu und Glauben« oder «bonne foi»", [(PHRASE, "Treu und Glauben"), (PHRASE, "bonne foi")]),
        ('Rack 19" oder Monitor 24" breit', []),
        ("“ und weiter nichts", []),
        ("§ 573c BGB", [(SECTION, "§ 573c")]),
        ("nach Art. 5 Abs. 1 GG und Section 21", [(SECTION, "Art. 5 Abs. 1"), (SECTION, "Section 21")]),
        ("DIN EN 60204-1 und ISO 9001", [(STANDARD, "DIN EN 60204-1"), (STANDARD, "ISO 9001")]),
        ("24 V bei 2,5 A", [(QUANTITY, "24 V"), (QUANTITY, "2,5 A")]),
        ("30 m² für 1.200,50 €", [(QUANTITY, "30 m²"), (QUANTITY, "1.200,50 €")]),
        ("KX-200 oder E42", [(IDENTIFIER, "KX-200"), (IDENTIFIER, "E42")]),
        ("max_size, log.retention.hours.", [(IDENTIFIER, "max_size"), (IDENTIFIER, "log.retention.hours")]),
        ("HttpClient --dry-run", [(IDENTIFIER, "HttpClient"), (IDENTIFIER, "--dry-run")]),
        ("batchSize in a.yml?", [(IDENTIFIER, "batchSize")]),
        ("TLS 1.0 seit Version 3.12", [(IDENTIFIER, "TLS 1.0"), (IDENTIFIER, "3.12")]),
        ("Die GmbH nach StGB z.B. am 1.2.2024 mit 10.000 Leuten", []),
        ("KX-200 nach § 3", [(SECTION, "§ 3"), (IDENTIFIER, "KX-200")]),
        ("§ 3 und § 3", [(SECTION, "§ 3")]),
        ("Paragraf 573c BGB, PARAGRAPH 5", [(SECTION, "Paragraf 573c"), (SECTION, "PARAGRAPH 5")]),
        ("Paragrafen 535 und 536", [(SECTION, "Paragrafen 535")]),
        ("nach den Artikeln 8 und 9, ART. 5", [(SECTION, "Artikeln 8"), (SECTION, "ART. 5")]),
        ("Art.5 GG", [(SECTION, "Art.5")]),
        ("Sec. 551 BGB and sections 3 and 4", [(SECTION, "Sec. 551"), (SECTION, "sections 3")]),
        ("§ 3 Abs 2 Satz 1 Nr 4 Buchstabe b", [(SECTION, "§ 3 Abs 2 Satz 1 Nr 4 Buchstabe b")]),
        ("§ 535 Absatz 2 Satz 1 BGB", [(SECTION, "§ 535 Absatz 2 Satz 1")]),
        ("§ 535 II BGB, § 573c I 2", [(SECTION, "§ 535 II"), (SECTION, "§ 573c I 2")]),
        ("Art 6 I 1 lit f DSGVO", [(SECTION, "Art 6 I 1 lit f")]),
        ("§ 573 c BGB, § 312 g Abs. 1", [(SECTION, "§ 573 c"), (SECTION, "§ 312 g Abs. 1")]),
        ("In section 5 I read of section 5 a person", [(SECTION, "section 5")]),
        ("am 01.01.24, vom 1.2.98 bis 31.12.24", []),
        ("1.1.-31.12.2023, 1.4. bis 15.5.2023, 1.4 bis 15.5.2023, Rat am 14.03.", []),
        ("Version 10.12.14, 1.2.10", [(IDENTIFIER, "10.12.14"), (IDENTIFIER, "1.2.10")]),
        ("Paragrafenreiter 5, Kunstart 5, Sektion 3", []),
        ("50 km/h oder 14 m/s", [(QUANTITY, "50 km/h"), (QUANTITY, "14 m/s")]),
        ("2 000 Euro, 50 000,50 €", [(QUANTITY, "2 000 Euro"), (QUANTITY, "50 000,50 €")]),
    ],
)  # fmt: skip
def test_what_has_one_writing_is_recognised(text: str, found: list[tuple[ExactKind, str]]) -> None:
    assert [(term.kind, term.text) for term in exact_terms(text)] == found


@pytest.mark.parametrize(("written", "spaced"), FOLLOWING_SECTIONS)
def test_following_sections_need_no_space(written: str, spaced: str) -> None:
    assert exact_terms(written) == exact_terms(spaced) != ()


def test_a_letter_behind_a_number_belongs_to_the_section() -> None:
    assert [term.text for term in exact_terms("§ 5f BauGB, § 312f. Gilt das?")] == ["§ 5f", "§ 312f"]


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2007"])
@pytest.mark.parametrize(
    "text",
    [
        "§ 573c BGB",
        "nach Art. 5 Abs. 1 GG und Section 21",
        "DIN EN 60204-1",
        "24 V bei 2,5 A für 1.200,50 €",
        "TLS 1.0",
        "Was heißt „höhere Gewalt“ hier?",
    ],
)
def test_no_break_spaces_are_spaces(text: str, space: str) -> None:
    assert exact_terms(text.replace(" ", space)) == exact_terms(text) != ()


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("höhere Gewalt", "Bei HÖHERER Gewalt nicht, bei höherer\nGewalt nicht, bei hoehere  \n GEWALT ja"),
        ("Straße", "die STRASSE"),
        ("Grüße", "viele Gruesse"),
        ("Model C", "die „Model C“-Schulen"),
        ("E-Mail", "eine E\u2011Mail"),
        ("Mietvertrag", "der Miet\u00advertrag"),
        ("Mietvertrag", "der Miet\u200bver\u2060tr\ufeffag"),
        ("don't", "I don’t know"),
        ("nach dem Bundes-Immissionsschutzgesetz", "Messungen nach dem Bundes-\n    Immissionsschutzgesetz,"),
        ("Dienst- oder Wohnort", "der Dienst-\noder Wohnort"),
        ("bis zum 31. Mai 2015", "nach der bis zum\n31\\. Mai 2015 geltenden Verordnung"),
        ("max_size", "the option max\\_size"),
        ("bis zum 31. Mai", "bis zum **31. Mai**, nicht länger"),
        ("1. Geltung der Satzung", "**1.** **Geltung** der `Satzung`"),
    ],
)
def test_spelling_that_means_the_same_holds_a_phrase(phrase: str, text: str) -> None:
    assert holds(["", text], phrase)


@pytest.mark.parametrize(("phrase", "text"), [("Treu", "Betreuung"), ("a b", "a, b"), ("Art", "Artikel")])
def test_a_phrase_is_held_as_whole_words(phrase: str, text: str) -> None:
    assert not holds([text], phrase)


def test_a_phrase_does_not_run_from_a_heading_into_the_text() -> None:
    assert not holds(["Kapitel eins", "zwei Seiten"], "eins zwei")


def test_one_of_several_phrases_is_enough() -> None:
    assert holds(["die Zweizimmerwohnung", "der Keller"], "Zwei", "Zweizimmerwohnung")
    assert not holds(["die Zweizimmerwohnung"], "Zwei", "Keller")
    assert not holds([""])


@given(text=st.text())
def test_any_text_has_terms_that_are_bounded_and_always_the_same(text: str) -> None:
    terms = exact_terms(text)

    assert terms == exact_terms(text)
    assert len(set(terms)) == len(terms) <= 32
    assert all(0 < len(term.text) <= 200 for term in terms)


@given(
    before=st.text(max_size=30), phrase=st.from_regex(r"\w[\w ]{0,20}\w", fullmatch=True), after=st.text(max_size=30)
)
def test_a_text_holds_what_is_quoted_from_it(before: str, phrase: str, after: str) -> None:
    (quoted,) = phrases_of(exact_terms(f"„{phrase}“"))

    assert holds([f"{before} {phrase} {after}"], quoted)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "part",
    [
        '"',
        "„",
        "„a",
        "a.",
        "A1",
        "aB",
        "1.",
        "1 ",
        "§ 1 ",
        "§",
        "DIN ",
        "_",
        "a_",
        "--a",
        "-",
        "Ab",
        "§ 1 I ",
        "*",
        "* ",
        "\\",
        "a- ",
    ],
)
def test_a_million_characters_take_no_longer_than_others(part: str) -> None:
    text = part * (1_000_000 // len(part))

    assert len(exact_terms(text)) <= 32
    assert not holds([text], "not there")
