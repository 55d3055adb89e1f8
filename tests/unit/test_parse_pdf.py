"""A PDF becomes what a reader sees of its pages."""

from itertools import product

import pytest

from freki.operators.errors import UnreadableContent
from freki.operators.parse_pdf import parse_pdf
from freki.operators.parse_pdf.lines import joined
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts
from tests.unit.pdfs import hidden, mapping, pdf, pdf_with_font, pictured, ruled, shown, shown_lines, written

_BODY = shown_lines([f"Zeile {number} des Textes, die lang genug ist, um Text zu sein" for number in range(8)], top=600)
PAGES_IN_THEMSELVES = {
    1: b"<</Type/Catalog/Pages 2 0 R>>",
    2: b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 1000000000>>",
}


def test_headings_are_larger_or_bolder_than_the_body() -> None:
    document = parse_pdf(
        pdf(
            shown(72, 780, "Mietvertrag über Wohnraum", size=20)
            + shown(72, 700, "§ 1 Mietsache", bold=True)
            + _BODY
            + shown(72, 400, "§ 2 Miete", bold=True)
            + shown(72, 380, "Die Miete beträgt 500 €.")
        )
    )

    assert headings(document) == [(1, "Mietvertrag über Wohnraum"), (2, "§ 1 Mietsache"), (2, "§ 2 Miete")]
    assert texts(document, BlockKind.PROSE)[-1] == "Die Miete beträgt 500 €."


def test_a_heading_of_two_lines_is_one() -> None:
    document = parse_pdf(pdf(shown(72, 780, "Ein langer", size=20) + shown(72, 757, "Titel", size=20) + _BODY))

    assert headings(document) == [(1, "Ein langer Titel")]


def test_bold_text_is_the_body_where_most_is_bold() -> None:
    lines = [shown(72, 700 - 14 * number, f"Zeile {number} in fetter Schrift", bold=True) for number in range(9)]

    assert headings(parse_pdf(pdf(b"".join(lines)))) == []


def test_a_title_among_the_bookmarks_gives_its_level() -> None:
    document = parse_pdf(
        pdf(
            shown(72, 780, "Kapitel", size=20) + _BODY,
            shown(72, 700, "Zweites") + shown(72, 686, "Kapitel") + _BODY,
            bookmarks=[("Zweites  Kapitel", 1), ("Fehlt", 0)],
        )
    )

    assert headings(document) == [(1, "Kapitel"), (1, "Zweites Kapitel")]


@pytest.mark.parametrize(("raised", "size"), [(3, 6), (4, 7), (6, 9)])
def test_a_raised_sign_parts_no_line(raised: float, size: float) -> None:
    sign = shown(170.4, 700 + raised, "2", size=size)
    line = shown(72, 700, "Befreit sind Anlagen") + sign + shown(170.4 + 0.556 * size, 700, ", die dem Bund")

    document = parse_pdf(pdf(line + shown_lines(["gehören oder den Ländern."], top=686)))

    assert document.text == "Befreit sind Anlagen2, die dem Bund gehören oder den Ländern."


def test_a_raised_sign_before_a_line_is_a_word_of_it() -> None:
    document = parse_pdf(pdf(shown(72, 706, "1", size=7) + shown(77.8, 700, "Die Satzung gilt.")))

    assert document.text == "1 Die Satzung gilt."


@pytest.mark.parametrize(("shift", "size"), [(3, 6), (4, 7), (5, 8), (-4, 6)])
def test_a_raised_digit_is_no_digit_of_the_number_before(shift: float, size: float) -> None:
    # Digits of Helvetica are 0.556 wide.
    sign = shown(72 + 3 * 0.556 * 12, 700 + shift, "1", size=size)
    line = shown(72, 700, "500", size=12) + sign + shown(72 + 3 * 0.556 * 12 + 0.556 * size, 700, "20 Euro", size=12)

    assert parse_pdf(pdf(line)).text == "500 1 20 Euro"


def test_digits_of_other_sizes_on_one_line_are_one_number() -> None:
    line = shown(72, 700, "12,", size=20) + shown(72 + (2 * 0.556 + 0.278) * 20, 700, "9", size=20)

    assert parse_pdf(pdf(line + shown(72 + (3 * 0.556 + 0.278) * 20, 700, "5", size=12))).text == "12,95"


def test_a_sentence_goes_on_below_a_comma_on_the_next_page() -> None:
    document = parse_pdf(pdf(shown(72, 700, "Der Anschluss ist Pflicht,"), shown(72, 700, "sobald die Leitung liegt.")))

    assert document.text == "Der Anschluss ist Pflicht, sobald die Leitung liegt."
    assert document.page_starts == (0, 27)


@pytest.mark.parametrize("number", ["- 2 -", "–2–", "Seite 2", "Seite 2 von 2", "Page 2 of 2"])
def test_the_number_of_a_page_parts_no_sentence_in_a_short_letter(number: str) -> None:
    first = shown(72, 700, "Gegen die Verfügung kann")
    second = shown(290, 780, number) + shown(72, 740, "innerhalb eines Monats") + shown(72, 726, "geklagt werden.")

    assert parse_pdf(pdf(first, second)).text == "Gegen die Verfügung kann innerhalb eines Monats geklagt werden."


@pytest.mark.parametrize("line", ["- 3 -", "Seite 1", "2", "Seite 2 fehlt"])
def test_another_number_at_the_edge_of_a_page_is_text(line: str) -> None:
    assert line in parse_pdf(pdf(_BODY, shown(290, 780, line) + _BODY)).text


def test_lines_of_a_paragraph_are_joined_and_paragraphs_are_parted() -> None:
    document = parse_pdf(
        pdf(shown_lines(["Erster Satz,", "der weitergeht.", "Dritter."]) + shown(72, 690, "Neuer Absatz."))
    )

    assert texts(document, BlockKind.PROSE) == ["Erster Satz, der weitergeht. Dritter.", "Neuer Absatz."]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["Der Mietver-", "trag gilt."], "Der Mietvertrag gilt."),
        (["Miet-", "und Pachtrecht"], "Miet- und Pachtrecht"),
        (["The agree-", "ment holds."], "The agreement holds."),
        (["Pre- ", "and postpaid"], "Pre- and postpaid"),
        (["Berlin-", "Mitte"], "Berlin-Mitte"),
        (["Das gilt EU-", "weit."], "Das gilt EU-weit."),
        (["Ein U-", "förmiger Bau."], "Ein U-förmiger Bau."),
        (["Der 17-", "jährige Fahrer."], "Der 17-jährige Fahrer."),
        (["Ein well-known Fall ist well-", "known."], "Ein well-known Fall ist well-known."),
        (["von 5 -", "auch mehr"], "von 5 - auch mehr"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_parts_a_word_before_a_small_letter(lines: list[str], text: str) -> None:
    assert parse_pdf(pdf(shown_lines(lines))).text == text


def test_lists_have_a_seam_an_item() -> None:
    document = parse_pdf(
        pdf(
            shown_lines(
                ["Nötig sind:", "• Ausweis", "• Foto, das nicht älter", "ist als ein Jahr", "1. Antrag", "2. Gebühr"]
            )
        )
    )

    _, listed = document.blocks
    assert parts(document, listed) == [
        "- Ausweis",
        "- Foto, das nicht älter ist als ein Jahr",
        "1. Antrag",
        "2. Gebühr",
    ]


def test_a_number_in_a_sentence_begins_no_list() -> None:
    document = parse_pdf(pdf(shown_lines(["Der Vertrag gilt ab dem", "1. Januar des Jahres."])))

    assert texts(document, BlockKind.LIST) == []


def _grid_with(cells: dict[tuple[int, int], list[str]], *, top: float = 700) -> bytes:
    """Draw cells of 150 times 40 points, by row from the top and column."""
    columns = sorted({column for _, column in cells})
    rows = sorted({row for row, _ in cells})
    drawn = ruled(
        [72 + 150 * column for column in [*columns, len(columns)]], [top - 40 * row for row in [*rows, len(rows)]]
    )
    shown_cells = (
        shown(76 + 150 * column, top - 12 - 40 * row - 13 * line, text)
        for (row, column), texts in cells.items()
        for line, text in enumerate(texts)
    )
    return drawn + b"".join(shown_cells)


def test_rules_part_the_cells_of_a_table() -> None:
    table = _grid_with(
        {
            (0, 0): ["Amt"],
            (0, 1): ["Zeit"],
            (1, 0): ["Bau-", "amt Süd"],
            (1, 1): ["9 Uhr"],
            (2, 0): [],
            (2, 1): ["10 Uhr"],
        }
    )
    document = parse_pdf(pdf(shown(72, 750, "Vorher") + table + shown(72, 500, "Nachher")))

    assert [block.kind for block in document.blocks] == [BlockKind.PROSE, BlockKind.TABLE, BlockKind.PROSE]
    assert parts(document, document.blocks[1]) == ["Amt | Zeit", "Bauamt Süd | 9 Uhr", "| 10 Uhr"]


def test_a_cell_over_two_columns_is_written_once() -> None:
    heights = [700, 670, 640]
    level = b"".join(b"72 %d m 372 %d l S\n" % (height, height) for height in heights)
    upright = b"72 640 m 72 700 l S\n372 640 m 372 700 l S\n222 640 m 222 670 l S\n"
    words = shown(180, 682, "Öffnungszeiten") + shown(76, 652, "Mo") + shown(226, 652, "9 Uhr")

    assert texts(parse_pdf(pdf(level + upright + words)), BlockKind.TABLE) == ["Öffnungszeiten\nMo | 9 Uhr"]


def test_rectangles_around_cells_are_a_table() -> None:
    boxes = b"".join(b"%d %d 100 20 re S\n" % (left, bottom) for left, bottom in product((72, 172), (680, 660)))
    words = shown(76, 686, "Amt") + shown(176, 686, "Zeit") + shown(76, 666, "Bau") + shown(176, 666, "9")

    assert texts(parse_pdf(pdf(boxes + words)), BlockKind.TABLE) == ["Amt | Zeit\nBau | 9"]


def test_a_frame_around_text_is_no_table() -> None:
    document = parse_pdf(pdf(b"60 560 400 80 re S\n" + _BODY))

    assert texts(document, BlockKind.TABLE) == []


def test_a_table_goes_on_over_a_page_and_its_head_is_read_once() -> None:
    first = _grid_with({(0, 0): ["Amt"], (0, 1): ["Zeit"], (1, 0): ["Bau"], (1, 1): ["9"]})
    second = _grid_with({(0, 0): ["Amt"], (0, 1): ["Zeit"], (1, 0): ["Kultur"], (1, 1): ["10"]})

    document = parse_pdf(pdf(first, second))

    assert texts(document, BlockKind.TABLE) == ["Amt | Zeit\nBau | 9\nKultur | 10"]
    assert document.text[document.page_starts[1] :] == "Kultur | 10"


def test_three_lines_that_share_a_column_are_a_table() -> None:
    rows = b"".join(
        shown(72, 700 - 14 * row, f"Amt {row}") + shown(300, 700 - 14 * row, f"{row} Uhr") for row in range(3)
    )

    assert texts(parse_pdf(pdf(rows)), BlockKind.TABLE) == ["Amt 0 | 0 Uhr\nAmt 1 | 1 Uhr\nAmt 2 | 2 Uhr"]


def test_two_lines_that_share_a_column_are_text() -> None:
    rows = b"".join(
        shown(72, 700 - 14 * row, f"Amt {row}") + shown(300, 700 - 14 * row, f"{row} Uhr") for row in range(2)
    )

    assert texts(parse_pdf(pdf(rows)), BlockKind.TABLE) == []


def _fees(*rows: tuple[str, list[str], float, str]) -> bytes:
    """Write rows cell by cell, as word processors do: number, lines of the service, left edge of the fee, fee."""
    written = b""
    height = 700
    for number, service, left, fee in rows:
        written += shown(72, height, number) + shown_lines(service, left=200, top=height) + shown(left, height, fee)
        height -= 14 * len(service) + 4
    return written


def test_cells_of_several_lines_are_in_their_row_without_rules() -> None:
    fees = _fees(
        ("Nr.", ["Leistung"], 420, "Betrag"),
        ("1", ["Ausweis, Antrag-", "steller ab 24", "Jahren"], 426, "37,00"),
        ("2", ["Marke,", "Ersatz"], 432, "5,00"),
        ("3", ["Zeugnis"], 426, "13,00"),
    )
    after = shown(72, 560, "Diese Satzung gilt ab Mai.")

    document = parse_pdf(pdf(fees + after))

    assert document.text == (
        "Nr. | Leistung | Betrag\n1 | Ausweis, Antragsteller ab 24 Jahren | 37,00\n2 | Marke, Ersatz | 5,00\n"
        "3 | Zeugnis | 13,00\n\nDiese Satzung gilt ab Mai."
    )
    assert texts(document, BlockKind.TABLE) == [document.text.partition("\n\n")[0]]


def test_the_first_cell_of_a_row_may_have_several_lines() -> None:
    rows = b"".join(
        shown_lines([f"Reise {row},", "ganztags"], left=72, top=700 - 30 * row) + shown(300, 700 - 30 * row, f"{row} €")
        for row in range(3)
    )

    assert texts(parse_pdf(pdf(rows)), BlockKind.TABLE) == [
        "Reise 0, ganztags | 0 €\nReise 1, ganztags | 1 €\nReise 2, ganztags | 2 €"
    ]


def test_a_line_across_columns_is_no_further_line_of_a_cell() -> None:
    heads = [("Amt", ["Zeit"], 300, "Ort"), ("Bau", ["9"], 300, "Saal 1"), ("Kultur", ["10"], 300, "Saal 2")]
    note = shown(200, 632, "Alle Angaben sind ohne Gewähr.")

    assert texts(parse_pdf(pdf(_fees(*heads) + note)), BlockKind.TABLE) == [
        "Amt | Zeit | Ort\nBau | 9 | Saal 1\nKultur | 10 | Saal 2"
    ]


def test_two_rows_of_several_lines_are_text() -> None:
    fees = _fees(("1", ["Ausweis ab 24", "Jahren"], 420, "37,00"), ("2", ["Marke,", "Ersatz"], 420, "5,00"))

    assert texts(parse_pdf(pdf(fees)), BlockKind.TABLE) == []


def test_columns_are_read_one_after_the_other() -> None:
    left = shown_lines(["Links oben", "links unten."], left=72)
    right = shown_lines(["Rechts oben", "rechts unten."], left=320)

    assert parse_pdf(pdf(left + right)).text == "Links oben links unten.\n\nRechts oben rechts unten."


def _page(number: int, *texts: str) -> bytes:
    running = shown(72, 820, "Handbuch, Stand 2026") + shown(290, 20, f"Seite {number}", size=8)
    return running + shown_lines(texts or [f"Inhalt der Seite {'abc'[number % 3]} von allen."])


@pytest.mark.parametrize("top", [750, 700, 740])
def test_a_word_goes_on_in_the_next_column(top: float) -> None:
    left = shown_lines(["Wer zahlt, kann vom Ver-", "mieter verlangen, den Miet-"], top=700)
    right = shown_lines(["vertrag zu ändern. So", "steht es im Gesetz."], left=320, top=top)

    document = parse_pdf(pdf(left + right))

    assert document.text == "Wer zahlt, kann vom Vermieter verlangen, den Mietvertrag zu ändern. So steht es im Gesetz."


def test_running_heads_and_page_numbers_are_left_out() -> None:
    assert parse_pdf(pdf(*(_page(number) for number in range(3)))).text == "\n\n".join(
        f"Inhalt der Seite {letter} von allen." for letter in "abc"
    )


def test_pages_of_one_form_keep_what_was_filled_in() -> None:
    paid = ((1, "Januar", "2345,10"), (2, "Februar", "2290,77"), (3, "März", "2499,00"), (4, "April", "1512,50"))
    pages = [
        shown_lines([f"Brutto im {month}:", "Personalnummer 4711", f"Seite {page}", f"Netto: {amount} Euro", "Ende"])
        for page, month, amount in paid
    ]

    text = parse_pdf(pdf(*pages)).text

    assert [text.count(f"Personalnummer 4711 Seite {page} Netto: {amount} Euro") for page, _, amount in paid] == [1] * 4


def test_numbered_titles_are_no_page_numbers() -> None:
    pages = [
        shown(72, 820, f"Schritt {number}", size=20) + shown_lines([f"Die Folie {letter} sagt, was zu tun ist."] * 2)
        for number, letter in enumerate("abc", start=1)
    ]

    assert headings(parse_pdf(pdf(*pages))) == [(1, "Schritt 1"), (1, "Schritt 2"), (1, "Schritt 3")]


def test_a_word_across_all_pages_is_left_out() -> None:
    pages = [
        _page(number, "Erstens.", letter, "Drittens.") + shown(72, 500, "ENTWURF", size=60) + shown(72, 90, "Ende")
        for number, letter in enumerate("abc")
    ]

    assert "ENTWURF" not in parse_pdf(pdf(*pages)).text


def test_copies_of_one_page_are_kept() -> None:
    assert parse_pdf(pdf(*[shown_lines(["Urkunde", "Ada Kühne hat bestanden."])] * 3)).text.count("bestanden") == 3


@pytest.mark.parametrize("number", ["", "Seite {} von 4", "{}"])
def test_copies_keep_what_is_at_the_edge_of_their_pages(number: str) -> None:
    lines = ["Rechnung Nummer 4711", *(f"Posten {letter}" for letter in "abcdefghijklmnop"), "Betrag: 100 Euro"]
    pages = [shown_lines(lines) + shown(280, 480, number.format(page)) for page in (1, 2, 3, 4)]

    text = parse_pdf(pdf(*pages)).text

    assert text.count("Rechnung Nummer 4711") == text.count("Betrag: 100 Euro") == 4


def test_what_two_pages_share_may_be_meant() -> None:
    assert "Handbuch" in parse_pdf(pdf(_page(0), _page(1))).text


def test_a_paragraph_goes_on_over_a_page_in_a_small_letter() -> None:
    pages = [_page(0, "Wer eine Wohnung ge-"), _page(1, "mietet hat und"), _page(2, "zahlt. Neuer Satz")]

    document = parse_pdf(pdf(*pages))

    assert document.text == "Wer eine Wohnung gemietet hat und zahlt. Neuer Satz"
    assert [document.text[start:] for start in document.page_starts] == [
        document.text,
        "mietet hat und zahlt. Neuer Satz",
        "zahlt. Neuer Satz",
    ]


def test_a_page_that_begins_with_a_capital_begins_a_paragraph() -> None:
    document = parse_pdf(pdf(shown(72, 700, "Ende ohne Punkt"), shown(72, 700, "Anfang")))

    assert texts(document, BlockKind.PROSE) == ["Ende ohne Punkt", "Anfang"]
    assert document.page_starts == (0, 17)


def test_pages_without_text_are_named() -> None:
    pages = [b"0 0 9 9 re f" if number in {1, 3, 4} else shown(72, 700, f"Seite {number}") for number in range(6)]

    document = parse_pdf(pdf(*pages))

    assert document.attributes["pages_without_text"] == "2, 4-5"
    assert len(document.page_starts) == 6


def test_many_pages_without_text_are_named_as_far_as_there_is_room() -> None:
    pages = [pictured() if number % 2 else shown(72, 700, f"Seite {number}") for number in range(300)]

    named = parse_pdf(pdf(*pages)).attributes["pages_without_text"]

    assert named.startswith("2, 4, 6")
    assert named.endswith(", ... (150 pages)")


@pytest.mark.parametrize(
    ("mapped", "text"),
    [
        ({b"a": "\U0001d465", b"b": "\u2208", b"c": "\U00020bb7"}, "\U0001d465\u2208\U00020bb7"),
        ({b"a": "\U0001f600", b"b": "\U0001f601", b"c": "!"}, "\U0001f600\U0001f601!"),
        ({b"a": "x", b"b": "\ude00", b"c": "\ud83d"}, "x"),
    ],
    ids=["mathematics and names", "emojis", "halves"],
)
def test_characters_beyond_16_bits_are_read(mapped: dict[bytes, str], text: str) -> None:
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 7 0 R>>"
    page = b"BT /F4 11 Tf 72 700 Td (abc) Tj ET\n"

    assert parse_pdf(pdf_with_font(page, font, mapping(mapped))).text == text


# Its characters are numbers of its glyphs, of which nothing says what they show.
_UNKNOWN_FONT = (
    b"<</Type/Font/Subtype/Type0/BaseFont/AAAAAA+Own/Encoding/Identity-H/DescendantFonts[<</Type/Font"
    b"/Subtype/CIDFontType2/BaseFont/AAAAAA+Own/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
    b"/FontDescriptor<</Type/FontDescriptor/FontName/AAAAAA+Own/Flags 4/FontBBox[0 0 999 999]/Ascent 800/Descent -200>>"
    b"/DW 500>>]>>"
)


def test_lines_in_a_font_that_identifies_no_character_are_left_out_and_told() -> None:
    heading = b"BT /F4 20 Tf 72 700 Td <002400250003002600270028002900240025> Tj ET\n"

    document = parse_pdf(pdf_with_font(heading + _BODY, _UNKNOWN_FONT))

    assert document.text.startswith("Zeile 0 des Textes")
    assert document.attributes["pages_without_text"] == "1"


def test_a_sign_in_a_font_that_identifies_no_character_makes_no_page_unread() -> None:
    sign = b"BT /F4 11 Tf 72 660 Td <006e> Tj ET\n"
    seal = b"BT /F4 11 Tf 72 700 Td <006e006f> Tj ET\n"
    item = shown(84, 660, "Ein Punkt einer Liste, der auf mehr als ein Zeichen folgt")

    document = parse_pdf(pdf_with_font(seal + sign + item + _BODY, _UNKNOWN_FONT))

    assert document.text.startswith("n Ein Punkt einer Liste")
    assert "pages_without_text" not in document.attributes


def test_a_scan_is_refused() -> None:
    with pytest.raises(UnreadableContent, match=r"no text on 12 of 12 pages, so this is a scan.*ocrmypdf"):
        parse_pdf(pdf(*[b"0 0 500 800 re f"] * 12))


def test_a_turned_page_is_read_as_it_is_seen() -> None:
    turned = b"q 0 1 -1 0 595 0 cm\n" + shown_lines(["Erste Zeile,", "zweite Zeile."], top=500) + b"Q"

    assert parse_pdf(pdf(turned, rotation=90)).text == "Erste Zeile, zweite Zeile."


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_what_is_cut_off_a_page_is_left_out(rotation: int) -> None:
    page = shown(72, 700, "Verfügung") + shown(72, 40, "Druckbogen 3") + shown(400, 700, "Vermerk am Rand")
    field = b"/FT/Tx/T(name)/V(Anna Meier)/Rect[110 47 300 62]"

    document = parse_pdf(pdf(page, fields=[field], rotation=rotation, crop="50 100 350 800"))

    assert document.text == "Verfügung"


@pytest.mark.parametrize("flags", [2, 32, 38])
def test_fields_that_are_not_shown_are_left_out(flags: int) -> None:
    fields = [
        b"/FT/Tx/T(%s)/V(%s)/Rect[110 747 300 762]/F %d" % field
        for field in ((b"a", b"intern", flags), (b"b", b"Anna", 4))
    ]

    document = parse_pdf(pdf(shown(72, 750, "Name:"), fields=fields))

    assert document.text.replace(" | ", " ") == "Name: Anna"


def test_passwords_in_fields_are_left_out() -> None:
    field = b"/FT/Tx/T(name)/Ff 8192/V(geheim)/Rect[110 747 300 762]"

    assert parse_pdf(pdf(shown(72, 750, "Kennwort:"), fields=[field])).text == "Kennwort:"


def test_title_and_language_are_read() -> None:
    document = parse_pdf(pdf(shown(72, 700, "Text"), info="Microsoft Word - Satzung"))

    assert (document.title, document.attributes["lang"]) == ("Satzung", "de-DE")


def xfa(page: bytes, pages: int, entry: bytes) -> bytes:
    """Write a form of Adobe LiveCycle, with an entry of the document."""
    return _mended(pdf(*[page] * pages).replace(b"/AcroForm<<", entry + b"/AcroForm<</XFA 6 0 R"))


def test_a_form_whose_page_only_adobe_reader_makes_is_refused() -> None:
    page = shown_lines(["Please wait...", "If this message is not eventually replaced by the proper contents"])

    with pytest.raises(UnreadableContent, match=r"dynamic XFA form.*open it in Adobe Reader and print it to PDF"):
        parse_pdf(xfa(page, 1, b"/NeedsRendering true"))


@pytest.mark.parametrize(("pages", "entry"), [(1, b""), (1, b"/NeedsRendering false"), (2, b"/NeedsRendering true")])
def test_a_form_of_adobe_with_pages_of_its_own_is_read(pages: int, entry: bytes) -> None:
    assert "Antrag" in parse_pdf(xfa(shown(72, 700, "Antrag"), pages, entry)).text


def test_a_locked_file_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="encrypted: save it without a password"):
        parse_pdf(pdf(shown(72, 700, "geheim"), locked=True))


def test_a_file_without_pages_is_not_called_locked_after_one_that_is() -> None:
    with pytest.raises(UnreadableContent, match="encrypted"):
        parse_pdf(pdf(shown(72, 700, "geheim"), locked=True))
    with pytest.raises(UnreadableContent, match="cut off or damaged"):
        parse_pdf(written(PAGES_IN_THEMSELVES))


def test_too_many_pages_are_refused() -> None:
    with pytest.raises(UnreadableContent, match="3 pages are more than 2: split the document"):
        parse_pdf(pdf(b"", b"", b""), max_pages=2)


@pytest.mark.parametrize(
    "content",
    [
        b"%PDF-1.7\n",
        pdf(shown(72, 700, "Text"))[:300],
        written(PAGES_IN_THEMSELVES),
    ],
    ids=["empty", "cut off", "pages in themselves"],
)
def test_a_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableContent, match=r"cut off or damaged|split the document|a scan, or damaged"):
        parse_pdf(content)


@pytest.mark.parametrize(
    "content",
    [
        b"".join(b"%d 0 m %d 800 l S 0 %d m 500 %d l S\n" % ((number,) * 4) for number in range(0, 2000, 2)),
        shown(72, 700, "x", size=0.0),
        shown(72, 700, "x", size=-12),
        b"q 0 0 0 0 0 0 cm " + shown(0, 0, "x") + b"Q ",
        b"".join(shown(9 * number % 500, 7 * number % 800, "x y") for number in range(2000)),
    ],
    ids=["rules", "no size", "mirrored", "flat", "scattered"],
)
def test_odd_pages_are_parsed(content: bytes) -> None:
    assert_outline(parse_pdf(pdf(content + _BODY)))


CODE = ["def f(a):", "    if a:", "        return  1", "    return 2"]


def indented(lines: list[str], *, top: float) -> bytes:
    """Show code as programs do: each line from where it begins, without the spaces before it."""
    return b"".join(
        shown(72 + 6.6 * (len(line) - len(line.lstrip())), top - 13 * number, line.lstrip(), fixed=True)
        for number, line in enumerate(lines)
    )


def test_lines_in_a_font_of_one_width_are_code_with_their_indentation() -> None:
    page = shown_lines(["So geht es:"]) + indented(CODE, top=720) + shown_lines(["Und fertig."], top=640)

    document = parse_pdf(pdf(page))

    assert texts(document, BlockKind.CODE) == ["\n".join(CODE)]
    assert texts(document, BlockKind.PROSE) == ["So geht es:", "Und fertig."]


def test_columns_of_a_drawing_in_code_are_no_table() -> None:
    art = ["+-----+     +-----+", "| A   | --> | B   |", "| a   |     | b   |", "+-----+     +-----+"]

    document = parse_pdf(pdf(shown_lines(["Das Bild zeigt es."]) + shown_lines(art, top=700, fixed=True)))

    assert texts(document, BlockKind.CODE) == ["\n".join(art)]
    assert not texts(document, BlockKind.TABLE)


def test_words_in_a_font_of_one_width_within_a_paragraph_are_prose() -> None:
    page = shown(72, 750, "Der Befehl heisst") + shown(72, 736, "freki publish", fixed=True) + shown(72, 722, "und so.")

    assert texts(parse_pdf(pdf(page)), BlockKind.PROSE) == ["Der Befehl heisst freki publish und so."]


def test_a_letter_from_a_typewriter_is_no_code() -> None:
    document = parse_pdf(pdf(shown_lines(["Sehr geehrte Damen,", "wir danken Ihnen."], fixed=True)))

    assert texts(document, BlockKind.PROSE) == ["Sehr geehrte Damen, wir danken Ihnen."]


def test_the_font_of_text_that_is_not_drawn_says_nothing_of_a_scan() -> None:
    text = shown_lines([f"Dieser Satz ist der {number}. von vielen auf der Seite." for number in range(20)])
    # The words are as wide as in the scan; their characters, of one width, leave gaps of more than one.
    scan = b"".join(
        hidden(left, top, word)
        for top, words in (
            (750, {72: "Die", 105: "Frist", 151: "be-"}),
            (736, {72: "trägt", 118: "vier", 157: "Wochen."}),
        )
        for left, word in words.items()
    )

    document = parse_pdf(pdf(text, pictured() + scan))

    assert not texts(document, BlockKind.CODE)
    assert texts(document, BlockKind.PROSE)[-1] == "Die Frist beträgt vier Wochen."


def test_a_scan_among_other_pages_has_headings_and_paragraphs_of_its_own() -> None:
    text = shown_lines([f"Dieser Satz ist der {number}. von vielen auf der Seite." for number in range(20)])
    scan = hidden(72, 750, "Anlage", size=18) + b"".join(
        hidden(72, 720 - 24 * number, "Die Frist ist kurz.", size=13) for number in range(3)
    )

    document = parse_pdf(pdf(text, pictured() + scan))

    assert headings(document) == [(1, "Anlage")]
    assert texts(document, BlockKind.PROSE)[-1] == "Die Frist ist kurz. Die Frist ist kurz. Die Frist ist kurz."


def test_what_was_filled_into_a_form_stands_where_it_is_shown() -> None:
    fields = [
        b"/FT/Tx/T(name)/V(Anna Meier)/Rect[110 747 300 762]",
        b"/FT/Tx/T(empty)/Rect[110 727 300 742]",
        b"/FT/Tx/T(note)/V(Bitte\\neilig)/Rect[72 600 300 640]",
        b"/FT/Btn/T(yes)/V/Yes/AS/Yes/Rect[110 707 120 719]/AP<</N<</Yes 3 0 R/Off 3 0 R>>>>",
    ]
    page = shown(72, 750, "Name:") + shown(320, 750, "Ort: Bonn") + shown(72, 730, "Alter:") + shown(72, 710, "Eilig:")

    document = parse_pdf(pdf(page, fields=fields))

    assert "Name: Anna Meier" in document.text.replace(" | ", " ")
    assert "Anna Meier Ort: Bonn" in document.text.replace(" | ", " ")
    assert "Bitte eilig" in document.text
    assert "Eilig: [x]" in document.text.replace(" | ", " ")


def test_pages_that_are_pictures_but_for_a_stamp_are_named() -> None:
    text = shown_lines(["Ein Absatz.", "Noch einer."])

    document = parse_pdf(pdf(text, pictured() + shown(72, 20, "Eingang 3. Mai"), pictured(), text, b""))

    assert document.attributes["pages_without_text"] == "2-3"


def test_a_small_picture_beside_few_words_is_no_scan() -> None:
    document = parse_pdf(pdf(pictured(100, 100) + shown_lines(["Titelseite"])))

    assert "pages_without_text" not in document.attributes


def test_author_and_times_are_attributes() -> None:
    content = pdf(
        shown(72, 700, "Text"),
        info="Satzung)/Author(Ada)/CreationDate(D:20260131093000+01'00')/ModDate(D:20260201)/Producer(x",
    )

    assert parse_pdf(content).attributes == {
        "author": "Ada",
        "created": "2026-01-31T08:30:00Z",
        "modified": "2026-02-01",
        "lang": "de-DE",
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize(("line", "text"), [("wort", "wort " * 99_999 + "wort"), ("A-b-", "A-b" * 99_999 + "A-b-")])
def test_no_long_paragraph_takes_long(line: str, text: str) -> None:
    # What is quadratic would run into the suite's timeout.
    assert joined([line] * 100_000) == text.replace("bA", "b-A")


@pytest.mark.parametrize("form", [b"/AcroForm", b"/NoForm00"])
@pytest.mark.parametrize(("more", "text"), [("", "Antrag von Ada Kühne"), ("/F 2", "Antrag von")])
def test_text_that_was_typed_onto_a_page_is_read(more: str, text: str, form: bytes) -> None:
    typed = f"/Subtype/FreeText/Rect[120 698 240 712]/Contents(Ada K\\374hne)/DA(/F1 11 Tf){more}".encode()
    content = pdf(shown(72, 700, "Antrag von"), fields=[typed]).replace(b"/Subtype/Widget/Subtype", b"/Subtype")

    assert parse_pdf(_mended(content.replace(b"/AcroForm", form))).text == text


def test_notes_on_a_page_are_left_out() -> None:
    note = b"/Subtype/Text/Rect[120 698 240 712]/Contents(Bitte klaeren)"
    content = pdf(shown(72, 700, "Antrag"), fields=[note]).replace(b"/Subtype/Widget/Subtype", b"/Subtype")

    assert parse_pdf(_mended(content)).text == "Antrag"


def test_embedded_files_are_named() -> None:
    invoice = parse_pdf(pdf(shown(72, 700, "Rechnung"), attached=["factur-x.xml", "Anlage Größe.pdf"]))

    assert invoice.attributes["attachments"] == "factur-x.xml, Anlage Größe.pdf"
    assert "attachments" not in parse_pdf(pdf(shown(72, 700, "Rechnung"))).attributes
    with pytest.raises(UnreadableContent, match=r"no text on 1 of 1 pages.*send them on their own: Akte\.pdf"):
        parse_pdf(pdf(pictured(), attached=["Akte.pdf"]))


def _mended(content: bytes) -> bytes:
    """Return a PDF whose objects have moved without its table, so that readers look for them."""
    return content.replace(b"startxref\n", b"startxref\n9")
