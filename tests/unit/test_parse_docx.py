"""A DOCX becomes what a reader sees of it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office import parse_docx
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts
from tests.unit.packages import archive, docx, paragraph, relations, word, word_table

_STYLES = word(
    "styles",
    '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="Paragraf"><w:name w:val="Paragraf"/><w:basedOn w:val="berschrift1"/></w:style>'
    '<w:style w:styleId="Anlage"><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
    '<w:style w:styleId="Kein"><w:basedOn w:val="berschrift1"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>'
    '<w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>'
    '<w:style w:styleId="Liste"><w:name w:val="List Bullet"/></w:style>'
    '<w:style w:styleId="Kreis"><w:name w:val="Kreis"/><w:basedOn w:val="Kreis"/></w:style>',
)


def _styled(text: str, style: str) -> str:
    return paragraph(text, f'<w:pStyle w:val="{style}"/>')


def test_headings_come_from_styles_and_outline_levels() -> None:
    document = parse_docx(
        docx(
            _styled("Mietvertrag", "Titel")
            + _styled("§ 1 Mietsache", "berschrift1")
            + _styled("§ 2 Miete", "Paragraf")
            + _styled("Anlage", "Anlage")
            + paragraph("Eigene", '<w:outlineLvl w:val="2"/>')
            + _styled("Text", "Kein")
            + _styled("Kreis", "Kreis"),
            parts={"word/styles.xml": _STYLES},
        )
    )

    assert headings(document) == [
        (1, "Mietvertrag"),
        (1, "§ 1 Mietsache"),
        (1, "§ 2 Miete"),
        (2, "Anlage"),
        (3, "Eigene"),
    ]
    assert texts(document, BlockKind.PROSE) == ["Text", "Kreis"]
    assert document.title == "Mietvertrag"


def _bold(text: str, more: str = "") -> str:
    runs = (f'<w:r><w:rPr><w:b{more}/></w:rPr><w:t xml:space="preserve">{part}</w:t></w:r>' for part in text.split("|"))
    return f"<w:p>{''.join(runs)}</w:p>"


def test_bold_lines_are_headings_where_nothing_else_is() -> None:
    body = (
        _bold("Dienst|anweisung")
        + _bold("1. Geltung")
        + paragraph("Sie gilt für alle.")
        + _bold("1.1 Ausnahmen")
        + paragraph("Keine.")
        + _bold("§ 2 Fristen")
        + paragraph("Text.")
        + _bold("Das ist verboten!")
        + _bold("Achtung:")
        + _bold("Fett war es", ' w:val="0"')
        + "<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>Halb</w:t></w:r><w:r><w:t> fett</w:t></w:r></w:p>"
        + _bold("Hinweis " * 20)
        + word_table(["a", "b"])
    )

    document = parse_docx(docx(body))

    assert headings(document) == [(1, "Dienstanweisung"), (2, "1. Geltung"), (3, "1.1 Ausnahmen"), (2, "§ 2 Fristen")]
    assert document.title == "Dienstanweisung"
    styled = docx(body + _styled("Anlage", "berschrift1"), parts={"word/styles.xml": _STYLES})
    assert headings(parse_docx(styled)) == [(1, "Anlage")]


def test_documents_in_bold_have_no_headings() -> None:
    document = parse_docx(docx(_bold("Alles") + _bold("ist fett") + paragraph("Fast.")))

    assert headings(document) == []
    assert document.title is None


def test_list_items_that_follow_each_other_are_one_list() -> None:
    inner = '<w:numPr><w:ilvl w:val="1"/><w:numId w:val="7"/></w:numPr>'
    document = parse_docx(
        docx(
            _styled("Ausweis", "Liste")
            + paragraph("in Kopie", inner)
            + paragraph("")
            + _styled("Foto", "Liste")
            + paragraph("Ende"),
            parts={"word/styles.xml": _STYLES},
        )
    )

    listed, prose = document.blocks
    assert parts(document, listed) == ["- Ausweis", "- in Kopie", "- Foto"]
    assert document.text[prose.start : prose.end] == "Ende"


def _level(depth: int, form: str, text: str, start: int = 1, *, more: str = "") -> str:
    look = f'<w:start w:val="{start}"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/>'
    return f'<w:lvl w:ilvl="{depth}">{look}</w:lvl>'


_NUMBERING = word(
    "numbering",
    f'<w:abstractNum w:abstractNumId="1">{_level(0, "decimal", "§ %1")}{_level(1, "lowerLetter", "%1.%2)")}'
    f'</w:abstractNum><w:abstractNum w:abstractNumId="2">{_level(0, "upperRoman", "%1.", 4)}{_level(1, "bullet", "·")}'
    "</w:abstractNum>"
    '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="2"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="2"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>'
    "</w:lvlOverride></w:num>",
)


def _numbered(text: str, number: int, depth: int = 0, more: str = "") -> str:
    return paragraph(text, f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>{more}')


def test_numbers_are_those_that_word_shows() -> None:
    heading = '<w:outlineLvl w:val="0"/>'
    document = parse_docx(
        docx(
            _numbered("Miete", 1, more=heading)
            + _numbered("erstens", 1, 1)
            + _numbered("zweitens", 1, 1)
            + _numbered("Kaution", 1, more=heading)
            + _numbered("neu", 1, 1)
            + paragraph("Text")
            + _numbered("vier", 2)
            + _numbered("Punkt", 2, 1)
            + _numbered("fünf", 2)
            + _numbered("eins", 3)
            + _numbered("ohne", 0),
            parts={
                "word/numbering.xml": _NUMBERING,
                "word/_rels/document.xml.rels": relations(numbering="numbering.xml"),
            },
        )
    )

    assert headings(document) == [(1, "§ 1 Miete"), (1, "§ 2 Kaution")]
    assert texts(document, BlockKind.LIST) == [
        "  1.a) erstens\n  1.b) zweitens",
        "  2.a) neu",
        "IV. vier\n  - Punkt\nV. fünf\nI. eins",
    ]
    assert texts(document, BlockKind.PROSE) == ["Text", "ohne"]


def _with_numbering(levels: str, more: str = "") -> dict[str, str]:
    numbering = word(
        "numbering",
        f'<w:abstractNum w:abstractNumId="1">{levels}</w:abstractNum>'
        f'<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>{more}',
    )
    return {
        "word/numbering.xml": numbering,
        "word/_rels/document.xml.rels": relations(numbering="numbering.xml", styles="styles.xml"),
    }


def test_sections_are_counted_through_all_parts_where_their_level_never_begins_anew() -> None:
    levels = _level(0, "upperRoman", "Teil %1") + _level(1, "decimal", "§ %2", more='<w:lvlRestart w:val="0"/>')
    levels += _level(2, "lowerLetter", "%3)") + _level(3, "decimal", "%4.", more='<w:lvlRestart w:val="1"/>')
    body = [("Allgemeines", 0), ("Zweck", 1), ("Begriffe", 1), ("eins", 2), ("Punkt", 3), ("zwei", 2), ("Punkt", 3)]
    body += [("Verfahren", 0), ("Antrag", 1), ("eins", 2), ("Punkt", 3)]

    document = parse_docx(
        docx("".join(_numbered(text, 1, depth) for text, depth in body), parts=_with_numbering(levels))
    )

    assert [line.strip() for line in document.text.splitlines()] == [
        *("Teil I Allgemeines", "§ 1 Zweck", "§ 2 Begriffe", "a) eins", "1. Punkt", "b) zwei", "2. Punkt"),
        *("Teil II Verfahren", "§ 3 Antrag", "a) eins", "1. Punkt"),
    ]


def test_a_level_may_show_all_numbers_in_decimal() -> None:
    levels = _level(0, "upperRoman", "%1.") + _level(1, "decimalZero", "%1.%2", more="<w:isLgl/>")
    levels += _level(2, "decimalZero", "%1.%3", more='<w:isLgl w:val="0"/>')
    body = _numbered("Ziele", 1) + _numbered("Mittel", 1) + _numbered("Geld", 1, 1) + _numbered("Zeit", 1, 2)

    document = parse_docx(docx(body, parts=_with_numbering(levels)))

    assert [line.strip() for line in document.text.splitlines()] == ["I. Ziele", "II. Mittel", "2.1 Geld", "II.01 Zeit"]


def test_a_list_may_have_levels_of_its_own() -> None:
    own = f'<w:lvlOverride w:ilvl="0">{_level(0, "lowerLetter", "%1)")}</w:lvlOverride>'
    more = f'<w:num w:numId="2"><w:abstractNumId w:val="1"/>{own}</w:num>'
    body = _numbered("Antrag", 1) + _numbered("Nachweis", 2) + _numbered("Kopie", 2, 1)

    document = parse_docx(
        docx(body, parts=_with_numbering(_level(0, "decimal", "(%1)") + _level(1, "decimal", "%1.%2"), more))
    )

    assert [line.strip() for line in document.text.splitlines()] == ["(1) Antrag", "b) Nachweis", "b.1 Kopie"]


def test_a_deeper_level_begins_where_its_list_says_each_time() -> None:
    starts = "".join(
        f'<w:lvlOverride w:ilvl="{depth}"><w:startOverride w:val="{start}"/></w:lvlOverride>'
        for depth, start in ((0, 2), (1, 5))
    )
    more = f'<w:num w:numId="2"><w:abstractNumId w:val="1"/>{starts}</w:num>'
    body = [("Antrag", 0), ("Frist", 1), ("Form", 1), ("Bescheid", 0), ("Frist", 1)]

    before = _numbered("Zweck", 1) + _numbered("Ziel", 1, 1)

    document = parse_docx(
        docx(
            before + "".join(_numbered(text, 2, depth) for text, depth in body),
            parts=_with_numbering(_level(0, "decimal", "%1.") + _level(1, "decimal", "%1.%2"), more),
        )
    )

    assert [line.strip() for line in document.text.splitlines()] == [
        *("1. Zweck", "1.1 Ziel", "2. Antrag", "2.5 Frist", "2.6 Form", "3. Bescheid", "3.5 Frist")
    ]


def test_a_paragraph_that_is_moved_in_keeps_the_list_of_its_style() -> None:
    levels = _level(0, "decimal", "%1.") + _level(1, "decimal", "%1.%2")
    deeper = '<w:numPr><w:ilvl w:val="1"/></w:numPr>'
    styles = word(
        "styles",
        '<w:style w:styleId="P"><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
        f'<w:style w:styleId="Q"><w:basedOn w:val="P"/><w:pPr>{deeper}</w:pPr></w:style>',
    )
    body = _styled("Antrag", "P") + paragraph("Frist", f'<w:pStyle w:val="P"/>{deeper}') + _styled("Form", "Q")

    document = parse_docx(docx(body, parts={**_with_numbering(levels), "word/styles.xml": styles}))

    assert document.text == "1. Antrag\n  1.1 Frist\n  1.2 Form"


def test_numbers_in_tables_are_shown_and_counted() -> None:
    rows = "".join(
        f"<w:tr><w:tc>{_numbered(number, 1)}</w:tc><w:tc>{paragraph(text)}{_numbered('Punkt', 2, 1)}</w:tc></w:tr>"
        for number, text in (("", "Antrag prüfen"), ("Bescheid", "senden"))
    )
    parts = {"word/numbering.xml": _NUMBERING, "word/_rels/document.xml.rels": relations(numbering="numbering.xml")}

    document = parse_docx(docx(_numbered("zuerst", 1) + f"<w:tbl>{rows}</w:tbl>" + _numbered("danach", 1), parts=parts))

    assert document.text == ("§ 1 zuerst\n\n§ 2 | Antrag prüfen Punkt\n§ 3 Bescheid | senden Punkt\n\n§ 4 danach")


def test_a_list_may_have_the_numbers_of_a_list_style() -> None:
    numbering = word(
        "numbering",
        f'<w:abstractNum w:abstractNumId="1"><w:styleLink w:val="Paragrafen"/>{_level(0, "decimal", "§ %1")}'
        '</w:abstractNum><w:abstractNum w:abstractNumId="2"><w:numStyleLink w:val="Paragrafen"/></w:abstractNum>'
        '<w:num w:numId="2"><w:abstractNumId w:val="2"/></w:num>',
    )
    parts = {"word/numbering.xml": numbering, "word/_rels/document.xml.rels": relations(numbering="numbering.xml")}

    document = parse_docx(docx(_numbered("Zweck", 2) + _numbered("Geltung", 2), parts=parts))

    assert document.text == "§ 1 Zweck\n§ 2 Geltung"


def test_a_tab_to_the_margin_parts_words() -> None:
    run = "<w:r><w:t>Aktenzeichen</w:t><w:ptab/><w:t>12/26</w:t></w:r>"

    assert parse_docx(docx(f"<w:p>{run}</w:p>")).text.split() == ["Aktenzeichen", "12/26"]


@pytest.mark.parametrize(
    ("font", "char", "shown"),
    [
        ("Wingdings", "F0FE", "☑"),
        ("Wingdings", "F0A8", "☐"),
        ("Wingdings", "00FD", "☒"),
        ("Wingdings", "F0FC", "✓"),
        ("wingdings 2", "F052", "☑"),
        ("Wingdings", "F0E0", "→"),
        ("Symbol", "F0B7", "•"),
        ("Symbol", "F0A3", "≤"),
        ("Symbol", "F06D", "μ"),
        ("MS Gothic", "2610", "☐"),
        ("Wingdings", "F028", ""),
        ("Webdings", "F0FE", ""),
        ("Eigene", "F0FE", ""),
        ("Wingdings", "kein", ""),
        ("Arial", "D800", ""),
        ("Arial", "000A", ""),
    ],
)
def test_inserted_symbols_are_shown_as_far_as_they_are_known(font: str, char: str, shown: str) -> None:
    symbol = f'<w:r><w:sym w:font="{font}" w:char="{char}"/></w:r>'

    document = parse_docx(docx(f"<w:p><w:r><w:t>ja[</w:t></w:r>{symbol}<w:r><w:t>]</w:t></w:r></w:p>"))

    assert document.text == f"ja[{shown}]"


def test_an_emoji_is_shown_once() -> None:
    choice = (
        '<w16se:symEx xmlns:w16se="http://schemas.microsoft.com/office/word/2015/wordml/symex" '
        'w16se:font="Segoe UI Emoji" w16se:char="1F60A"/>'
    )
    both = f"<mc:Choice>{choice}</mc:Choice><mc:Fallback><w:t>😊</w:t></mc:Fallback>"

    document = parse_docx(docx(f"<w:p><w:r><mc:AlternateContent>{both}</mc:AlternateContent></w:r></w:p>"))

    assert document.text == "😊"


def test_check_boxes_of_forms_are_shown() -> None:
    control = (
        '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml">'
        '<w14:checked w14:val="1"/></w14:checkbox></w:sdtPr><w:sdtContent><w:r><w:sym w:font="Wingdings" '
        'w:char="F0FE"/></w:r></w:sdtContent></w:sdt>'
    )
    field = '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox>{}</w:checkBox></w:ffData></w:fldChar></w:r>'
    states = ("<w:checked/>", '<w:default w:val="1"/><w:checked w:val="0"/>', '<w:default w:val="1"/>', "")

    boxes = "".join(field.format(state) + "<w:r><w:t> </w:t></w:r>" for state in states)

    assert parse_docx(docx(f"<w:p>{control}{boxes}<w:r><w:t>Ende</w:t></w:r></w:p>")).text == "☑☒ ☐ ☒ ☐ Ende"


def test_the_chosen_entry_of_a_drop_down_list_is_shown() -> None:
    field = '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList>{}</w:ddList></w:ffData></w:fldChar></w:r>'
    entries = '<w:listEntry w:val="ledig"/><w:listEntry w:val="verheiratet"/>'
    by_default = '<w:default w:val="1"/>'
    states = ('<w:result w:val="1"/>', f'{by_default}<w:result w:val="0"/>', by_default, "", '<w:result w:val="7"/>')

    lists = "".join(f"<w:p><w:r><w:t>Stand: </w:t></w:r>{field.format(state + entries)}</w:p>" for state in states)

    assert texts(parse_docx(docx(lists)), BlockKind.PROSE) == [
        *("Stand: verheiratet", "Stand: ledig", "Stand: verheiratet", "Stand: ledig", "Stand:"),
    ]


def test_a_style_may_give_the_number() -> None:
    styles = word(
        "styles",
        '<w:style w:styleId="P"><w:pPr><w:outlineLvl w:val="0"/><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
        "</w:style>",
    )
    links = relations(numbering="numbering.xml", styles="styles.xml")
    parts = {"word/numbering.xml": _NUMBERING, "word/styles.xml": styles, "word/_rels/document.xml.rels": links}

    assert headings(parse_docx(docx(_styled("Miete", "P") + _styled("Dauer", "P"), parts=parts))) == [
        (1, "§ 1 Miete"),
        (1, "§ 2 Dauer"),
    ]


def test_a_table_has_a_line_a_row() -> None:
    document = parse_docx(docx(word_table(("Amt", "Zeit"), ("Bau", "9\nUhr"), ("", ""))))

    (table,) = document.blocks
    assert table.kind is BlockKind.TABLE
    assert parts(document, table) == ["Amt | Zeit", "Bau | 9 Uhr"]


def test_cells_stand_below_their_header_beside_cells_that_span_columns() -> None:
    def cell(text: str, *, span: str = "1") -> str:
        return f'<w:tc><w:tcPr><w:gridSpan w:val="{span}"/></w:tcPr>{paragraph(text)}</w:tc>'

    spanning = f"<w:tr>{cell('Summe', span='2')}{cell('9')}</w:tr>"
    later = f'<w:tr><w:trPr><w:gridBefore w:val="1"/></w:trPr>{cell("Stück")}</w:tr>'
    whole = f"<w:tr>{cell('netto', span='3')}</w:tr>"
    wrong = f"<w:tr>{cell('a', span='x')}{cell('b', span='-2')}{cell('c')}</w:tr>"
    table = word_table(("Art", "Zahl", "EUR")).replace("</w:tbl>", f"{spanning}{later}{whole}{wrong}</w:tbl>")

    document = parse_docx(docx(table))

    assert parts(document, document.blocks[0]) == ["Art | Zahl | EUR", "Summe |  | 9", "| Stück", "netto", "a | b | c"]


def test_a_table_that_holds_a_table_is_layout() -> None:
    cell = f"<w:tc>{paragraph('Kasten')}{word_table(('Amt', 'Zeit'))}</w:tc>"
    document = parse_docx(docx(f"<w:tbl><w:tr>{cell}</w:tr></w:tbl>"))

    assert texts(document, BlockKind.PROSE) == ["Kasten"]
    assert texts(document, BlockKind.TABLE) == ["Amt | Zeit"]


def test_footnotes_follow_the_paragraph_that_names_them() -> None:
    document = parse_docx(
        docx(
            '<w:p><w:r><w:t>Satz</w:t><w:footnoteReference w:id="2"/></w:r></w:p>' + paragraph("Weiter"),
            parts={
                "word/footnotes.xml": word("footnotes", f'<w:footnote w:id="2">{paragraph("Fundstelle")}</w:footnote>')
            },
        )
    )

    assert texts(document, BlockKind.PROSE) == ["Satz", "Fundstelle", "Weiter"]


_NOTES = {
    "word/footnotes.xml": word(
        "footnotes", "".join(f'<w:footnote w:id="{each}">{paragraph(f"Note {each}")}</w:footnote>' for each in "234")
    )
}


def _referring(text: str, note: str) -> str:
    return f'<w:p><w:r><w:t>{text}</w:t></w:r><w:r><w:footnoteReference w:id="{note}"/></w:r></w:p>'


def test_footnotes_of_cells_follow_their_table() -> None:
    cells = "".join(f"<w:tc>{_referring(text, note)}</w:tc>" for text, note in (("Umzug", "3"), ("50 Euro", "2")))

    document = parse_docx(docx(f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>{paragraph('Weiter')}", parts=_NOTES))

    assert texts(document, BlockKind.TABLE) == ["Umzug | 50 Euro"]
    assert texts(document, BlockKind.PROSE) == ["Note 3", "Note 2", "Weiter"]


def test_what_a_style_hides_is_left_out_unless_the_text_says_otherwise() -> None:
    styles = (
        '<w:style w:styleId="Intern"><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="Notiz"><w:basedOn w:val="Intern"/></w:style>'
        '<w:style w:styleId="Offen"><w:basedOn w:val="Intern"/><w:rPr><w:vanish w:val="0"/></w:rPr></w:style>'
    )
    run = "<w:r><w:rPr>{}</w:rPr><w:t>{}</w:t></w:r>"
    runs = run.format("", "Gebühr") + run.format('<w:rStyle w:val="Notiz"/>', " (strittig)")
    shown = run.format('<w:vanish w:val="0"/>', "Sichtbar")
    intern = '<w:rStyle w:val="Intern"/>'
    note = f'<w:footnote w:id="3"><w:p>{run.format(intern, "Quelle")}</w:p></w:footnote>'

    document = parse_docx(
        docx(
            f'<w:p>{runs}<w:r><w:footnoteReference w:id="3"/></w:r></w:p>'
            + _styled("Vermerk", "Notiz")
            + f'<w:p><w:pPr><w:pStyle w:val="Intern"/></w:pPr>{run.format("", "Nein")}{shown}</w:p>'
            + _styled("Ende", "Offen")
            + word_table(["Amt", "Zeit"]).replace("<w:t>Zeit", f"<w:rPr>{intern}</w:rPr><w:t>Zeit"),
            parts={"word/styles.xml": word("styles", styles), "word/footnotes.xml": word("footnotes", note)},
        )
    )

    assert document.text == "Gebühr\n\nSichtbar\n\nEnde\n\nAmt |"


def test_footnotes_whose_reference_is_deleted_or_hidden_are_left_out() -> None:
    deleted = '<w:del><w:r><w:footnoteReference w:id="2"/></w:r></w:del>'
    hidden = '<w:r><w:rPr><w:vanish/></w:rPr><w:footnoteReference w:id="3"/></w:r>'
    kept = '<w:r><w:footnoteReference w:id="4"/></w:r>'

    document = parse_docx(docx(f"<w:p><w:r><w:t>Satz</w:t></w:r>{deleted}{hidden}{kept}</w:p>", parts=_NOTES))

    assert texts(document, BlockKind.PROSE) == ["Satz", "Note 4"]


def test_footnotes_of_a_text_box_are_read_once() -> None:
    box = f"<w:r><w:pict><w:txbxContent>{_referring('Kasten', '2')}</w:txbxContent></w:pict></w:r>"

    document = parse_docx(docx(f"<w:p><w:r><w:t>Satz</w:t></w:r>{box}</w:p>", parts=_NOTES))

    assert texts(document, BlockKind.PROSE) == ["Satz", "Kasten", "Note 2"]


def test_a_footnote_is_read_once_however_often_it_is_referred_to() -> None:
    document = parse_docx(docx(_referring("Satz", "2") + _referring("Noch einer", "2"), parts=_NOTES))

    assert texts(document, BlockKind.PROSE) == ["Satz", "Note 2", "Noch einer"]


def test_a_text_box_is_read_once() -> None:
    box = f"<w:txbxContent>{paragraph('Kasten')}</w:txbxContent>"
    document = parse_docx(
        docx(
            "<w:p><w:r><w:t>Satz</w:t><mc:AlternateContent>"
            f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
        )
    )

    assert texts(document, BlockKind.PROSE) == ["Satz", "Kasten"]


def test_a_line_in_bold_is_a_heading_whatever_its_text_box_is() -> None:
    box = f"<w:r><w:rPr><w:b/></w:rPr><w:pict><w:txbxContent>{paragraph('Kasten')}</w:txbxContent></w:pict></w:r>"
    line = f"<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>Geltung</w:t></w:r>{box}</w:p>"

    document = parse_docx(docx(line + paragraph("Sie gilt für alle.") * 3))

    assert headings(document) == [(1, "Geltung")]


def test_what_a_reader_does_not_see_is_left_out() -> None:
    document = parse_docx(
        docx(
            "<w:p><w:del><w:r><w:delText>alt</w:delText></w:r></w:del><w:ins><w:r><w:t>neu</w:t></w:r></w:ins>"
            "<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:rPr><w:vanish/></w:rPr><w:t>versteckt</w:t></w:r></w:p>"
            f"<w:tbl><w:tr><w:trPr><w:del/></w:trPr><w:tc>{paragraph('weg')}</w:tc></w:tr></w:tbl>"
        )
    )

    assert document.text == "neu"


def _changed(*runs: str, mark: str = "", more: str = "") -> str:
    mark = f"<w:rPr><w:{mark}/></w:rPr>" if mark else ""
    shown = "".join(run if run.startswith("<") else f"<w:r><w:t>{run}</w:t></w:r>" for run in runs)
    return f"<w:p><w:pPr>{more}{mark}</w:pPr>{shown}</w:p>"


def _deleted(text: str) -> str:
    return f"<w:del><w:r><w:delText>{text}</w:delText></w:r></w:del>"


def test_a_deletion_across_paragraphs_joins_them() -> None:
    body = _changed("Die Frist beträgt ", _deleted("vier Wochen."), mark="del") + '<w:bookmarkEnd w:id="1"/>'
    body += _changed(_deleted("Sie ist lang."), mark="moveFrom") + _changed(_deleted("Und"), "zwei Wochen.")
    body += _changed("Tabelle:", mark="del") + word_table(["a", "b"]) + _changed(_deleted("Ende"), mark="del")

    document = parse_docx(docx(body))

    assert document.text == "Die Frist beträgt zwei Wochen.\n\nTabelle:\n\na | b"


def test_deleted_items_are_not_counted() -> None:
    place = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
    items = _numbered("Zweck", 1) + _changed(_deleted("Übergang"), mark="del", more=place) + _numbered("Frist", 1)
    cell = f"<w:tbl><w:tr><w:tc>{items}</w:tc></w:tr></w:tbl>"

    document = parse_docx(docx(items + cell, parts=_with_numbering(_level(0, "decimal", "§ %1"))))

    assert document.text == "§ 1 Zweck\n§ 2 Frist\n\n§ 3 Zweck § 4 Frist"


def test_wrapped_paragraphs_breaks_and_tabs_are_read() -> None:
    document = parse_docx(
        docx(
            f"<w:sdt><w:sdtContent>{paragraph('Feld')}</w:sdtContent></w:sdt>"
            "<w:p><w:r><w:t>a</w:t><w:br/><w:t>b</w:t><w:tab/><w:t>c</w:t></w:r></w:p>"
        )
    )

    assert texts(document, BlockKind.PROSE) == ["Feld", "a\nb\tc"]


def test_of_what_has_a_version_for_older_programs_the_other_is_read() -> None:
    def versions(new: str, old: str) -> str:
        return (
            f'<mc:AlternateContent><mc:Choice Requires="w14">{new}</mc:Choice>'
            f"<mc:Fallback>{old}</mc:Fallback></mc:AlternateContent>"
        )

    cell = f"<w:tbl><w:tr><w:tc>{versions(paragraph('Zelle'), paragraph('alt'))}</w:tc></w:tr></w:tbl>"
    document = parse_docx(docx(versions(paragraph("Absatz"), paragraph("alt")) + versions(cell, paragraph("alt"))))

    assert document.text == "Absatz\n\nZelle"


def test_text_that_is_an_embedded_file_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="altChunk"):
        parse_docx(docx(paragraph("Anbei") + '<w:altChunk r:id="html1"/>'))


def test_title_author_and_times_are_read() -> None:
    document = parse_docx(
        docx(
            paragraph("x"),
            core="<dc:title>Handbuch</dc:title><dc:creator>Jürgen Groß</dc:creator>"
            "<dcterms:created>2026-01-31T09:30:00Z</dcterms:created><dcterms:modified>gestern</dcterms:modified>",
        )
    )

    assert document.title == "Handbuch"
    assert document.attributes == {"author": "Jürgen Groß", "created": "2026-01-31T09:30:00Z"}


def test_the_strict_standard_is_read_too() -> None:
    content = docx(paragraph("Text"))
    strict = archive(
        {
            "_rels/.rels": relations(officeDocument="word/document.xml"),
            "word/document.xml": '<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"><w:body>'
            "<w:p><w:r><w:t>Text</w:t></w:r></w:p></w:body></w:document>",
        }
    )

    assert parse_docx(strict).text == parse_docx(content).text == "Text"


def test_the_main_part_may_have_any_name() -> None:
    document = parse_docx(
        archive(
            {
                "_rels/.rels": relations(officeDocument="/word/document2.xml"),
                "word/document2.xml": word("document", f"<w:body>{paragraph('Text')}</w:body>"),
            }
        )
    )

    assert document.text == "Text"


def test_an_empty_document_has_no_text() -> None:
    document = parse_docx(docx(""))

    assert (document.text, document.blocks, document.title) == ("", (), None)


def test_a_package_without_a_text_document_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="no document in the package"):
        parse_docx(archive({"_rels/.rels": relations()}))
    with pytest.raises(UnreadableContent, match="no text document"):
        parse_docx(archive({"_rels/.rels": relations(officeDocument="missing.xml")}))


@pytest.mark.parametrize(
    "body",
    ["<w:tbl><w:tr><w:tc>" * 40 + "</w:tc></w:tr></w:tbl>" * 40, paragraph("x", '<w:outlineLvl w:val="99999"/>')],
    ids=["nested", "level"],
)
def test_odd_documents_are_parsed(body: str) -> None:
    assert_outline(parse_docx(docx(body)))


@pytest.mark.exhaustive
def test_no_long_chain_of_styles_takes_long() -> None:
    # What is quadratic would run into the suite's timeout.
    chain = "".join(f'<w:style w:styleId="{n}"><w:basedOn w:val="{n + 1}"/></w:style>' for n in range(20_000))

    document = parse_docx(docx(paragraph("Text"), parts={"word/styles.xml": word("styles", chain)}))

    assert document.text == "Text"


def test_how_a_word_is_pronounced_is_left_out() -> None:
    base, reading = "<w:r><w:t>東京</w:t></w:r>", "<w:r><w:t>とうきょう</w:t></w:r>"
    ruby = f"<w:r><w:ruby><w:rubyPr/><w:rt>{reading}</w:rt><w:rubyBase>{base}</w:rubyBase></w:ruby></w:r>"

    assert parse_docx(docx(f"<w:p>{ruby}<w:r><w:t>駅</w:t></w:r></w:p>")).text == "東京駅"


def _run(inner: str) -> str:
    return f"<w:r>{inner}</w:r>"


def _character(kind: str) -> str:
    return _run(f'<w:fldChar w:fldCharType="{kind}"/>')


def _shown(text: str) -> str:
    return _run(f'<w:t xml:space="preserve">{text}</w:t>')


def _field(instruction: str, result: str) -> str:
    return f"{_character('begin')}{instruction}{_character('separate')}{result}{_character('end')}"


def _code(text: str) -> str:
    return _run(f'<w:instrText xml:space="preserve">{text}</w:instrText>')


def test_a_field_that_another_depends_on_is_not_shown() -> None:
    salutation = _field(_code("MERGEFIELD Anrede"), _shown("Herr"))
    condition = _field(
        _code("IF ") + salutation + _code(' = "Herr" "Sehr geehrter Herr" "Sehr geehrte Frau"'),
        _shown("Sehr geehrter Herr"),
    )
    name = _field(_code("MERGEFIELD Name"), _shown("Müller"))

    document = parse_docx(docx(f"<w:p>{condition}{_shown(' ')}{name}{_shown(',')}</w:p>"))

    assert document.text == "Sehr geehrter Herr Müller,"


def test_what_a_field_without_a_result_depends_on_is_not_shown() -> None:
    reference = _field(_code("REF a"), _shown("Frist") + _run("<w:br/>"))
    entry = _character("begin") + _code("XE ") + reference + _character("end")

    assert parse_docx(docx(f"<w:p>{_shown('vor')}{entry}{_shown('her')}</w:p>")).text == "vorher"


@pytest.mark.parametrize("field", [_character("begin"), _character("begin") * 2 + _character("end")])
def test_a_field_that_never_ends_hides_nothing(field: str) -> None:
    assert parse_docx(docx(f"<w:p>{field}{_shown('Text')}</w:p>")).text == "Text"


_Piece = str | tuple[Sequence["_Piece"], Sequence["_Piece"] | None]
"""A text, or instruction and result of a field."""
_PIECES = st.recursive(
    st.sampled_from("abc"),
    lambda inner: st.tuples(st.lists(inner, max_size=3), st.none() | st.lists(inner, max_size=3)),
    max_leaves=20,
)


def _written(piece: _Piece) -> str:
    if isinstance(piece, str):
        return _shown(piece)
    instruction, result = piece
    separate = "" if result is None else _character("separate")
    inner = [*map(_written, instruction), separate, *map(_written, result or ())]
    return f"{_character('begin')}{''.join(inner)}{_character('end')}"


def _visible(piece: _Piece) -> str:
    return piece if isinstance(piece, str) else "".join(map(_visible, piece[1] or ()))


@given(st.lists(_PIECES, max_size=5))
def test_of_all_fields_the_results_alone_are_shown(pieces: Sequence[_Piece]) -> None:
    document = parse_docx(docx(f"<w:p>{''.join(map(_written, pieces))}</w:p>"))

    assert document.text == "".join(map(_visible, pieces))


def _chart(*texts: str) -> str:
    points = "".join(f"<dgm:pt><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>" for text in texts)
    return f'<dgm:dataModel {_DIAGRAM}><dgm:ptLst>{points}<dgm:pt type="pres"/></dgm:ptLst></dgm:dataModel>'


_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
_DIAGRAM = f'xmlns:dgm="{_DRAWING}/diagram" xmlns:a="{_DRAWING}/main"'


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        ("{}", "Aufbau\n\n- Leitung\n- Referat 1\n- Referat 2\n\nEnde"),
        ("<w:tbl><w:tr><w:tc>{}</w:tc></w:tr></w:tbl>", "Aufbau\n\n- Leitung\n- Referat 1\n- Referat 2\n\nEnde"),
        ("<w:p><w:del>{}</w:del></w:p>", "Aufbau\n\nEnde"),
    ],
)
def test_texts_of_a_diagram_are_read_in_its_place(around: str, expected: str) -> None:
    chart = f'<w:p><w:r><w:drawing><dgm:relIds {_DIAGRAM} r:dm="diagramData"/></w:drawing></w:r></w:p>'
    document = parse_docx(
        docx(
            paragraph("Aufbau") + around.format(chart) + chart.replace("diagramData", "missing") + paragraph("Ende"),
            parts={
                "word/_rels/document.xml.rels": relations(diagramData="diagrams/data1.xml"),
                "word/diagrams/data1.xml": _chart("Leitung", "Referat 1", " ", "Referat 2"),
            },
        )
    )

    assert document.text == expected


def _at(height: str, text: str) -> str:
    return _run(f'<w:rPr><w:vertAlign w:val="{height}"/></w:rPr><w:t xml:space="preserve">{text}</w:t>')


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (_shown("Gebühr: 500") + _at("superscript", "1") + _shown(" Euro"), "Gebühr: 500 1 Euro"),
        (_shown("§ 3 Abs. 5") + _at("superscript", "2") + _shown("Die Frist"), "§ 3 Abs. 5 2Die Frist"),
        (_at("superscript", "1") + _shown("20 Euro"), "1 20 Euro"),
        (_shown("10 m") + _at("superscript", "2") + _shown(", CO") + _at("subscript", "2"), "10 m2, CO2"),
        (_shown("10") + _at("baseline", "2") + _at("superscript", "3") + _at("superscript", "4"), "102 34"),
        (_shown("5") + f"<w:del>{_at('superscript', '9')}</w:del>" + _shown("0"), "50"),
        (_shown("7") + _run('<w:rPr><w:rStyle w:val="Hoch"/></w:rPr><w:t>3</w:t>') + _shown("."), "7 3."),
    ],
)
def test_a_raised_digit_is_no_digit_of_the_number_before(runs: str, expected: str) -> None:
    styles = word(
        "styles",
        '<w:style w:styleId="Hoch" w:type="character"><w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>',
    )

    assert parse_docx(docx(f"<w:p>{runs}</w:p>", parts={"word/styles.xml": styles})).text == expected


def _math(inner: str) -> str:
    return f'<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">{inner}</m:oMath>'


def _term(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (f"<m:f><m:num>{_term('1')}</m:num><m:den>{_term('2')}</m:den></m:f>", "1/2"),
        (f"<m:f><m:fPr/><m:num>{_term('a')}{_term('+b')}</m:num><m:den>{_term('1,5')}</m:den></m:f>", "(a+b)/1,5"),
        (f"<m:sSup><m:e>{_term('10')}</m:e><m:sup>{_term('-3')}</m:sup></m:sSup>", "10^(-3)"),
        (f"<m:sSub><m:e>{_term('x')}</m:e><m:sub>{_term('12')}</m:sub></m:sSub>", "x_12"),
        (f"<m:rad><m:deg/><m:e>{_term('2')}</m:e></m:rad>", "√2"),
    ],
)
def test_a_fraction_is_no_other_number(formula: str, expected: str) -> None:
    assert parse_docx(docx(f"<w:p>{_math(formula)}</w:p>")).text == expected


@pytest.mark.parametrize(
    ("switch", "expected"),
    [("<w:strike/>", "20 Euro"), ("<w:dstrike/>", "20 Euro"), ('<w:strike w:val="0"/>', "10 20 Euro")],
)
def test_text_struck_through_is_left_out(switch: str, expected: str) -> None:
    struck = _run(f'<w:rPr>{switch}</w:rPr><w:t xml:space="preserve">10 </w:t>')

    assert parse_docx(docx(f"<w:p>{struck}{_shown('20 Euro')}</w:p>")).text == expected


@pytest.mark.parametrize("switch", ["strike", "dstrike"])
def test_text_that_a_style_strikes_through_is_left_out(switch: str) -> None:
    styles = word(
        "styles",
        f'<w:style w:styleId="Alt"><w:rPr><w:{switch}/></w:rPr></w:style>'
        '<w:style w:styleId="Erbe"><w:basedOn w:val="Alt"/></w:style>',
    )
    struck = _run('<w:rPr><w:rStyle w:val="Erbe"/></w:rPr><w:t>10 Euro </w:t>')
    valid = _run(f'<w:rPr><w:rStyle w:val="Alt"/><w:{switch} w:val="0"/></w:rPr><w:t>20 Euro</w:t>')
    body = f"<w:p>{struck}{valid}</w:p>" + paragraph("Entfällt", '<w:pStyle w:val="Alt"/>')

    assert parse_docx(docx(body, parts={"word/styles.xml": styles})).text == "20 Euro"


def test_deleted_cells_are_left_out() -> None:
    deleted = f'<w:tc><w:tcPr><w:cellDel w:id="1"/></w:tcPr>{paragraph("alt")}</w:tc>'
    table = f"<w:tbl><w:tr>{deleted}<w:tc>{paragraph('neu')}</w:tc><w:tc>{paragraph('1')}</w:tc></w:tr></w:tbl>"

    assert parse_docx(docx(table)).text == "neu | 1"
