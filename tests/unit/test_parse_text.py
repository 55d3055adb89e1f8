"""Plain text is split at blank lines and numbered headings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_text import parse_text
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts

SPACES = [" ", "\t", "\u00a0", "\u202f", "\u2007", " \u00a0"]
"""White space within lines: Word, web pages and LibreOffice write the third and fourth after § and numbers."""


def test_paragraphs_are_parted_by_blank_lines() -> None:
    document = parse_text("  One\ntwo.\n \t\nThree.\n")

    assert texts(document, BlockKind.PROSE) == ["One\ntwo.", "Three."]


def test_numbered_lines_are_headings() -> None:
    document = parse_text(
        "1. Allgemeines\n\nText.\n\n1.2 Geltung\n\nText.\n\n§ 3 Fristen\n\nText.\n\n2 Ende\n\nText.\n"
    )

    assert headings(document) == [(1, "1. Allgemeines"), (2, "1.2 Geltung"), (1, "§ 3 Fristen"), (1, "2 Ende")]


@pytest.mark.parametrize("space", SPACES)
def test_any_white_space_of_a_line_parts_a_number_from_its_title(space: str) -> None:
    lines = ["§ 1 Geltung", "§§ 2-3 Begriffe", "§ 4: Fristen", "§ 5 a", "Art. 6 Ehe", "1. Zweck", "1.2 Ziel"]
    document = parse_text("\n\nText.\n\n".join(line.replace(" ", space) for line in lines))

    assert headings(document) == [(2 if line.startswith("1.2") else 1, line) for line in lines]


@pytest.mark.parametrize("space", SPACES)
def test_references_with_any_white_space_are_no_headings(space: str) -> None:
    assert headings(parse_text(f"Text.\n\n{'§ 3 Abs. 2 BGB'.replace(' ', space)}\n\nText.\n")) == []


@pytest.mark.parametrize("space", SPACES)
def test_any_white_space_of_a_line_parts_an_item_from_its_mark(space: str) -> None:
    document = parse_text(f"{space}-{space}a\n{space}1.{space}b\n")

    (listed,) = document.blocks
    assert listed.kind is BlockKind.LIST
    assert [part.strip() for part in parts(document, listed)] == [f"-{space}a", f"1.{space}b"]


def test_a_table_of_contents_may_have_other_white_space_than_the_headings() -> None:
    document = parse_text(
        "§\u00a01\tGeltung\n\n§\u00a02\tKosten\n\nDer Rat:\n\n§ 1 Geltung\n\nText.\n\n§ 2 Kosten\n\nText.\n"
    )

    assert headings(document) == [(1, "§ 1 Geltung"), (1, "§ 2 Kosten")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("space", [*SPACES, "§", "§\u00a0", "1", "1.", "-"])
@pytest.mark.parametrize("before", ["", "a", "1", "1.", "§", "Art. 1", "§ 1", "§ 1:", "-", "Anlage", "Teil 1", "I."])
@pytest.mark.parametrize("after", ["", "a", "1.", "\n-"])
def test_no_line_takes_long(before: str, space: str, after: str) -> None:
    # What is quadratic would run into the suite's timeout.
    source = f"{before}{space * 100_000}{after}\n\nText."

    assert parse_text(source).text == source


def test_numbered_sentences_and_items_are_no_headings() -> None:
    document = parse_text("1. Er kam.\n\nText.\n\n1. Äpfel\n\n2. Birnen\n\n3. Quitten\n\n17.6.2004 war ein Tag.\n")

    assert headings(document) == []


@pytest.mark.parametrize(
    "line",
    [
        "15. Mai 2024",
        "15. Mai",
        "1. Jänner 2024",
        "3. Feber",
        "15 May 2024",
        "3 March",
        "15. MAI 2024",
        "15. Mai bis 30. Juni 2024",
        "3. August 2024, 14 Uhr",
        "3. Sept. 2024",
        "12. Dez 2024",
        "15.\u00a0Mai 2024",
        "30 Euro je Antrag",
        "30\u00a0EUR",
        "2.500 Euro",
        "7 Prozent",
        "14 Tage",
        "10 Werktage nach Zugang",
        "1 Jahr",
        "3 Monate zum Quartalsende",
        "3 Wochen",
        "14 Uhr",
        "14.30 Uhr Eröffnung",
        "25 Stück",
        "5 kg je Person",
        "120 km/h",
        "30 days",
        "3 Mio. Euro",
    ],
)
def test_dates_and_amounts_are_neither_headings_nor_titles(line: str) -> None:
    document = parse_text(f"{line}\n\n§ 1 Gebühr\n\n{line}\n\nText.\n")

    assert headings(document) == [(1, "§ 1 Gebühr")]
    assert document.title is None


@pytest.mark.parametrize(
    "line",
    [
        "15. Märkte",
        "3 Tagesordnung",
        "2 Jahresabschluss",
        "1. Mai-Kundgebung",
        "3. August Macke",
        "2 Marktordnung",
        "4 Tagebücher",
        "1. Euro und Währungsunion",
        "2 Euro-Einführung",
        "5 Prozentrechnung",
        "3 Uhren",
        "7. Stücke für Klavier",
        "4 Kilometergeld",
        "8 Maintenance",
        "2. Jahre der Not",
        "3 Jan Hus",
        "1. Tage und Nächte",
        "2 Gebühren",
        "6 Monatsbericht",
    ],
)
def test_titles_that_begin_like_months_and_units_are_headings(line: str) -> None:
    assert headings(parse_text(f"Text.\n\n{line}\n\nText.\n")) == [(1, line)]


def test_numbers_of_parts_stand_before_any_title() -> None:
    assert headings(parse_text("Text.\n\n2.1 Tage\n\nText.\n")) == [(2, "2.1 Tage")]


def test_paragraphs_of_a_statute_are_headings_also_in_a_row_and_without_a_title() -> None:
    document = parse_text(
        "§ 1 Geltung\n\nDiese Satzung gilt.\n\n§ 2 Aufgehoben\n\n§ 3 Kündigung\n\nSie bedarf der Schriftform.\n\n"
        "§ 573 a\n\nText.\n\n§ 574\n\nText.\n\n§ 575 (weggefallen)\n\n§§ 576-578 „Wohnung“\n\n"
        "Art 4\n\nText.\n\nArtikel 5 Meinung\n\nText.\n\nArt. 6: Ehe  \n\nText.\n\nArticle 7 – Scope\n\nText.\n"
    )

    assert [title for _, title in headings(document)] == [
        "§ 1 Geltung",
        "§ 2 Aufgehoben",
        "§ 3 Kündigung",
        "§ 573 a",
        "§ 574",
        "§ 575 (weggefallen)",
        "§§ 576-578 „Wohnung“",
        "Art 4",
        "Artikel 5 Meinung",
        "Art. 6: Ehe",
        "Article 7 – Scope",
    ]


@pytest.mark.parametrize(
    "paragraph",
    [
        "Das regelt für Wohnungen\n§ 574",
        "§ 574\nist anzuwenden",
        "§ 574\nGilt auch hier.",
        "§ 574\nAbs. 2 BGB",
        "§ 574\n(2) Sie gilt",
        "§ 574\nEine Zeile\nNoch eine",
        "Nach\n§ 574\n(1) gilt",
        "§ 3 Abs. 2 BGB",
        "Art. 5 Absatz 1 GG",
        "§ 574.",
        "§ 574 gilt hier. ",
        "Artikel 5er Pack",
        "Arten 5",
    ],
)
def test_references_and_wrapped_lines_are_no_headings(paragraph: str) -> None:
    assert headings(parse_text(f"Text.\n\n{paragraph}\n\nText.\n")) == []


def test_the_title_of_a_paragraph_of_a_statute_may_stand_in_the_next_line() -> None:
    document = parse_text(
        "§ 1\nGegenstand der Steuer\n\n(1) Text.\n\n§ 2 \n  „Hunde“\n\nText.\n\nArtikel 3\nInkrafttreten\n\nText.\n"
    )

    assert headings(document) == [(1, "§ 1 Gegenstand der Steuer"), (1, "§ 2 „Hunde“"), (1, "Artikel 3 Inkrafttreten")]


def test_the_title_of_a_section_may_stand_below_a_blank_line() -> None:
    document = parse_text(
        "§ 4\n\nZuständigkeit\n\n(1) Text.\n\n§ 5\n\n\n „Gebühren“\n\nText.\n\nArt. 6\n\nEnde\n\nText.\n"
    )

    assert headings(document) == [(1, "§ 4 Zuständigkeit"), (1, "§ 5 „Gebühren“"), (1, "Art. 6 Ende")]
    assert texts(document, BlockKind.PROSE) == ["(1) Text.", "Text.", "Text."]


@pytest.mark.parametrize(
    "below", ["Text.", "(1) Text.", "gilt nicht", "15. Mai 2024", "§ 5 Frist", "Zwei\nZeilen", "- Äpfel", "Abs. 2 BGB"]
)
def test_text_below_a_section_is_no_title(below: str) -> None:
    assert (1, "§ 4") in headings(parse_text(f"Text.\n\n§ 4\n\n{below}\n\nText.\n"))


def test_a_section_at_the_end_has_no_title_below() -> None:
    assert headings(parse_text("Text.\n\n§ 4\n\nZuständig ist sie\n")) == [(1, "§ 4")]


def test_the_first_subsection_may_stand_right_below_its_heading() -> None:
    document = parse_text(
        "§ 1 Geltung\n(1) Sie gilt.\n(2) Immer.\n\n§ 2\nSteuer\n(1) Text,\nder endet.\n\n§ 3\n(1) Text.\n"
    )

    assert headings(document) == [(1, "§ 1 Geltung"), (1, "§ 2 Steuer"), (1, "§ 3")]
    assert texts(document, BlockKind.PROSE) == ["(1) Sie gilt.\n(2) Immer.", "(1) Text,\nder endet.", "(1) Text."]


@pytest.mark.parametrize(
    ("above", "level"),
    [
        ("§ 3 Inkrafttreten", 1),
        ("§ 3\nInkrafttreten", 1),
        ("Art. 3 Inkrafttreten", 1),
        ("TOP 2: Haushalt", 1),
        ("TOP 3 – Verschiedenes", 1),
        ("2. Vergabe", 1),
        ("2.1. Direktauftrag", 2),
    ],
)
def test_sentences_may_stand_right_below_a_heading(above: str, level: int) -> None:
    text = "Diese Satzung tritt am Tag nach ihrer\nVerkündung in Kraft."

    document = parse_text(f"Vorspruch.\n\n{above}\n{text}\n")

    assert headings(document) == [(level, above.replace("\n", " "))]
    assert texts(document, BlockKind.PROSE) == ["Vorspruch.", text]


def test_a_heading_may_stand_right_below_that_of_its_chapter() -> None:
    document = parse_text("2. Vergabe\n2.1 Auftrag\nBis 1.000 Euro genügt ein Angebot.\n")

    assert headings(document) == [(1, "2. Vergabe"), (2, "2.1 Auftrag")]


@pytest.mark.parametrize(
    "paragraph",
    [
        "§ 4 Hundesteuersatzung bestimmt, dass die\nSteuer im Januar fällig ist.",
        "§ 3 der Satzung gilt\nDie Steuer beträgt im Jahr 60 Euro.",
        "1. Zucker\nAus Rüben und aus Rohr gewonnen.\n2. Mehl\nAus Weizen.",
        "TOP 1: Begrüßung\nDie Leitung begrüßt alle.\nTOP 2: Haushalt\nEr wird beschlossen.",
        "3. Stock\nRathaus der Stadt Auental",
        "15. Mai\nDer Rat tagt im großen Saal.",
    ],
)
def test_a_line_above_others_is_no_heading_where_they_go_on_or_count_on(paragraph: str) -> None:
    assert headings(parse_text(f"Text.\n\n{paragraph}\n")) == []


def test_items_of_an_agenda_are_headings_of_minutes() -> None:
    document = parse_text(
        "TOP 1 Eröffnung\n\nTOP 2 Ausbau\n\nEs ist 18 Uhr.\n\nTOP 1 Eröffnung\n\nText.\n\nTOP 2 Ausbau\n\nText.\n\n"
        "TOP 2.1: Kosten\n\nText.\n\nTagesordnungspunkt 3 – Verschiedenes\n\nText.\n\nTOP 10\n\nText.\n\n"
        "TOP 3 wird vertagt.\n\nTOP 100.000 der Welt\n"
    )

    assert headings(document) == [
        (1, "TOP 1 Eröffnung"),
        (1, "TOP 2 Ausbau"),
        (2, "TOP 2.1: Kosten"),
        (1, "Tagesordnungspunkt 3 – Verschiedenes"),
        (1, "TOP 10"),
    ]


def test_a_table_of_contents_of_a_statute_is_no_heading() -> None:
    contents = "§ 1 Geltung\n\n§ 2 Kosten\n\n"
    document = parse_text(f"{contents}Der Rat hat beschlossen:\n\n§ 1 Geltung\n\nText.\n\n§ 2 Kosten\n\nText.\n")

    assert headings(document) == [(1, "§ 1 Geltung"), (1, "§ 2 Kosten")]
    assert document.text[document.blocks[3].start :].startswith("§ 1 Geltung\n\nText.")


def test_annexes_and_parts_are_headings_above_sections_and_numbers() -> None:
    document = parse_text(
        "Satzung\n\nErster Teil\n\nAbschnitt I\nAllgemeines\n\n§ 1 Geltung\n\nText.\n\nII. Abschnitt – Gebühren\n\n"
        "§ 2 Höhe\n\nText.\n\n2. Teil: Ende\n\n§ 3 Inkrafttreten\n\nText.\n\nAnlage 1 (zu § 2)\n\n1. Auskünfte\n\n"
        "Text.\n\n1.1 Mündliche\n\nText.\n\nAnlage 2a\n(zu § 3)\nMuster\n\nTeil B\n\nText.\n\nAnhang II\n\nText.\n"
    )

    assert headings(document) == [
        (1, "Erster Teil"),
        (2, "Abschnitt I Allgemeines"),
        (3, "§ 1 Geltung"),
        (2, "II. Abschnitt – Gebühren"),
        (3, "§ 2 Höhe"),
        (1, "2. Teil: Ende"),
        (2, "§ 3 Inkrafttreten"),
        (1, "Anlage 1 (zu § 2)"),
        (2, "1. Auskünfte"),
        (3, "1.1 Mündliche"),
        (1, "Anlage 2a (zu § 3) Muster"),
        (2, "Teil B"),
        (1, "Anhang II"),
    ]


@pytest.mark.parametrize(
    "paragraph",
    [
        "Anlage 3 Nr. 2 der Satzung",
        "Anlage 3 gilt entsprechend",
        "Anlage 3 ist beigefügt.",
        "Anlage 1 Lageplan\nAnlage 2 Foto",
        "Anlage 1\nAnlage 2",
        "Teil 3,5",
        "Teilnahme 3",
        "2. Teil der Maßnahme.",
        "Nach\nAnlage 3",
    ],
)
def test_references_to_annexes_and_lists_of_them_are_no_headings(paragraph: str) -> None:
    assert headings(parse_text(f"Text.\n\n{paragraph}\n\nText.\n")) == []


@pytest.mark.parametrize(
    ("above", "title"),
    [
        ("Anlage", "Anlage"),
        ("ANHANG", "ANHANG"),
        ("Anlage (zu § 3 Abs. 2)", "Anlage (zu § 3 Abs. 2)"),
        ("Anlage\n(zu § 3)\nVerzeichnis", "Anlage (zu § 3) Verzeichnis"),
        ("Anhang: Muster", "Anhang: Muster"),
        ("Anlage\nMuster", "Anlage Muster"),
    ],
)
def test_an_annex_needs_no_number_above_text(above: str, title: str) -> None:
    document = parse_text(f"Satzung\n\n§ 1 Gebühr\n\nText.\n\n{above}\n\n1. Auskünfte\n\nText.\n")

    assert headings(document) == [(1, "§ 1 Gebühr"), (1, title), (2, "1. Auskünfte")]


def test_an_annex_without_a_number_may_have_a_file_of_its_own() -> None:
    assert parse_text("Anlage: Verzeichnis\n\nText.\n").title == "Anlage: Verzeichnis"


@pytest.mark.parametrize(
    "paragraph",
    [
        "Anlage:",
        "Anlagen",
        "Anlage ist beigefügt",
        "anlage",
        "Anlage Ort",
        "Anlage.",
        "Anlage\nAnlage 2",
        "Die\nAnlage",
    ],
)
def test_other_lines_with_an_annex_are_no_headings(paragraph: str) -> None:
    assert headings(parse_text(f"Text.\n\n{paragraph}\n\nText.\n")) == []


@pytest.mark.parametrize("paragraph", ["Anlage", "Anlage\nLageplan"])
def test_what_a_letter_encloses_at_its_end_is_no_heading(paragraph: str) -> None:
    assert headings(parse_text(f"Mit freundlichen Grüßen\n\n{paragraph}\n")) == []


def test_roman_numbers_are_those_of_headings_where_they_count_on() -> None:
    document = parse_text(
        "Vereinbarung\n\nI. Zweck\n\nText.\n\n1. Begriffe\n\nText.\n\nII. Verfahren\n\nText.\n\nIII. Ende\n\nText.\n\n"
        "V. Schmidt\n\nI. Meier\n\nRat\n"
    )

    assert headings(document) == [(1, "I. Zweck"), (2, "1. Begriffe"), (1, "II. Verfahren"), (1, "III. Ende")]
    assert headings(parse_text("1. Zweck\n\nText.\n\nI. Zeit\n\nText.\n\nII. Ort\n\nText.\n\n2. Ende\n\nText.\n")) == [
        (1, "1. Zweck"),
        (2, "I. Zeit"),
        (2, "II. Ort"),
        (1, "2. Ende"),
    ]
    assert headings(parse_text("Text.\n\nI. Äpfel\n\nII. Birnen\n\nIII. Quitten\n")) == []


def test_a_table_of_contents_with_parts_is_no_heading() -> None:
    contents = "Abschnitt 1 Kosten\n\n§ 1 Höhe\n\nAbschnitt 2 Ende\n\n§ 2 Frist\n\n"
    body = "Abschnitt 1 Kosten\n\n§ 1 Höhe\n\nText.\n\nAbschnitt 2 Ende\n\n§ 2 Frist\n\nText.\n"

    assert headings(parse_text(f"{contents}Der Rat beschließt:\n\n{body}")) == [
        (1, "Abschnitt 1 Kosten"),
        (2, "§ 1 Höhe"),
        (1, "Abschnitt 2 Ende"),
        (2, "§ 2 Frist"),
    ]


def test_an_annex_with_a_file_of_its_own_is_called_so() -> None:
    document = parse_text("Anlage 2 Gebührenverzeichnis\n\n1. Auskünfte\n\nText.\n")

    assert document.title == "Anlage 2 Gebührenverzeichnis"
    assert headings(document) == [(1, "Anlage 2 Gebührenverzeichnis"), (2, "1. Auskünfte")]


def test_a_first_line_that_is_no_sentence_is_the_title() -> None:
    assert parse_text("Dienstanweisung 12\n\nSie gilt.\n").title == "Dienstanweisung 12"
    assert parse_text("Satzung der Stadt\nvom 2. Mai 2024\n\nSie gilt.\n").title == "Satzung der Stadt vom 2. Mai 2024"
    assert parse_text("Sie gilt.\n\nDienstanweisung 12\n").title is None
    assert parse_text("Stadt Auental\nDer Bürgermeister\n\nSie gilt.\n").title is None
    assert parse_text("Wir haben beschlossen\nund verkünden:\n\nSie gilt.\n").title is None
    assert parse_text("Dienstanweisung 12").title is None
    assert parse_text("- Apfel\n\nBirne\n").title is None


def test_the_subject_of_a_letter_is_its_title() -> None:
    head, body = "Stadt Auental\nRathausplatz 1\n\nAuental, 12. März 2024\n\n", "Ihr Antrag ist da.\n"

    assert (
        parse_text(f"{head}Bescheid über Wohngeld\n\nSehr geehrte Frau Otto,\n\n{body}").title
        == "Bescheid über Wohngeld"
    )
    assert parse_text(f"{head}Betreff: Wohngeld\n\nSehr geehrter Herr Otto,\n\n{body}").title == "Wohngeld"
    assert parse_text(f"{head}Sehr geehrte Frau Otto,\n\n{body}").title is None
    assert parse_text(f"Rede\n\nBegrüßung\n\nSehr geehrte Damen und Herren,\n\n{body}").title == "Rede"
    assert parse_text(f"{head}12. März 2024\n\nSehr geehrte Frau Otto,\n\n{body}").title is None


def test_a_paragraph_of_items_is_a_list() -> None:
    document = parse_text("- a\n  more\n- b\n")

    (listed,) = document.blocks
    assert listed.kind is BlockKind.LIST
    assert parts(document, listed) == ["- a\n  more", "- b"]


def test_letters_mark_items_too() -> None:
    document = parse_text("a) Äpfel,\nb) Birnen\n   aa) Kochbirnen\n\nz. B.) Quitten\n\nusw) Rest\n")

    (listed,) = (block for block in document.blocks if block.kind is BlockKind.LIST)
    assert parts(document, listed) == ["a) Äpfel,", "b) Birnen", "aa) Kochbirnen"]


@given(source=st.text(alphabet="Art1.§-( \u00a0\u202f\t\n\r\x0b\u2028\x00", max_size=80))
def test_blocks_hold_all_that_is_visible(source: str) -> None:
    assert_outline(parse_text(source))
