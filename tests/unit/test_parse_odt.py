"""An ODT becomes what a reader sees of it."""

import pytest

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office import parse_odt
from freki.schemas.outline import BlockKind
from tests.unit.outlines import headings, parts, texts
from tests.unit.packages import archive, manifest, odf_styles, odt

_TITLE = '<style:style style:name="P1" style:parent-style-name="Title"/>'
_TABLE = (
    "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>Amt</text:p></table:table-cell>"
    "<table:table-cell><text:p>Zeit</text:p></table:table-cell></table:table-row></table:table-header-rows>"
    "<table:table-row><table:table-cell><text:p>Bau</text:p><text:p>Süd</text:p></table:table-cell>"
    "<table:table-cell><text:p>9 Uhr</text:p></table:table-cell></table:table-row></table:table>"
)


def test_headings_come_from_levels_and_the_title_style() -> None:
    document = parse_odt(
        odt(
            '<text:p text:style-name="P1">Satzung</text:p><text:h text:outline-level="2">§ 1 Name</text:h>'
            "<text:h>Ohne Stufe</text:h><text:p>Text</text:p>",
            styles=_TITLE,
        )
    )

    assert headings(document) == [(1, "Satzung"), (2, "§ 1 Name"), (1, "Ohne Stufe")]
    assert document.title == "Satzung"


def test_lists_keep_their_depth() -> None:
    document = parse_odt(
        odt(
            "<text:list><text:list-item><text:p>eins</text:p><text:list><text:list-item><text:p>innen</text:p>"
            "</text:list-item></text:list></text:list-item><text:list-item><text:p>zwei</text:p></text:list-item></text:list>"
        )
    )

    (listed,) = document.blocks
    assert document.text == "- eins\n  - innen\n- zwei"
    assert parts(document, listed) == ["- eins", "- innen", "- zwei"]


_NUMBERED = (
    '<text:list-style style:name="L1">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-prefix="(" style:num-suffix=")"/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")" text:display-levels="2"/>'
    '<text:list-level-style-bullet text:level="3"/></text:list-style>'
)


def test_items_have_the_numbers_that_are_shown_before_them() -> None:
    first = "<text:list-item><text:p>{}</text:p></text:list-item>"
    inner = f"<text:list-item><text:p>zwei</text:p><text:list>{first.format('innen') * 2}</text:list></text:list-item>"
    document = parse_odt(
        odt(
            f'<text:list text:style-name="L1">{first.format("eins")}{inner}</text:list><text:p>Text</text:p>'
            f'<text:list text:style-name="L1" text:continue-numbering="true">{first.format("drei")}</text:list>'
            f'<text:p>Text</text:p><text:list text:style-name="L1">{first.format("neu")}</text:list>',
            styles=_NUMBERED,
        )
    )

    assert texts(document, BlockKind.LIST) == ["(1) eins\n(2) zwei\n  2.a) innen\n  2.b) innen", "(3) drei", "(1) neu"]


def test_an_item_may_begin_its_list_at_0() -> None:
    item = "<text:list-item{}><text:p>{}</text:p></text:list-item>"
    from_0 = item.format(' text:start-value="0"', "null")

    document = parse_odt(
        odt(f'<text:list text:style-name="L1">{from_0}{item.format("", "eins")}</text:list>', styles=_NUMBERED)
    )

    assert texts(document, BlockKind.LIST) == ["(0) null\n(1) eins"]


def test_numbers_in_tables_are_shown_and_counted() -> None:
    item = "<text:list-item><text:p>{}</text:p></text:list-item>"
    listed = '<text:list text:style-name="L1" text:continue-numbering="true">{}</text:list>'
    inner = f"<text:p>Frist</text:p>{listed.format(item.format('zwei'))}"
    points = f"<text:list>{item.format('Punkt') * 2}</text:list>"
    cells = "".join(f"<table:table-cell>{cell}</table:table-cell>" for cell in (inner, points))

    document = parse_odt(
        odt(
            f"{listed.format(item.format('eins'))}<table:table><table:table-row>{cells}</table:table-row></table:table>"
            f"{listed.format(item.format('drei'))}",
            styles=_NUMBERED,
        )
    )

    assert document.text == "(1) eins\n\nFrist (2) zwei | Punkt Punkt\n\n(3) drei"


def test_what_stands_in_a_cell_beside_its_text_follows_it() -> None:
    note = "<text:note><text:note-body><text:p>Note</text:p></text:note-body></text:note>"
    box = "<draw:frame><draw:text-box><text:p>Kasten</text:p></draw:text-box></draw:frame>"
    item = (
        f"<text:list><text:list-item><text:p>Punkt{note}</text:p><text:p>weiter</text:p></text:list-item></text:list>"
    )
    cell = f"<table:table-cell>{box}<text:section><text:p>Satz{box}</text:p></text:section>{item}</table:table-cell>"

    document = parse_odt(odt(f"<table:table><table:table-row>{cell}</table:table-row></table:table>"))

    assert document.text == "Kasten Satz Kasten Punkt Note weiter"


def test_headings_have_the_numbers_of_their_outline() -> None:
    level = '<text:outline-level-style text:level="{0}" style:num-format="1" text:display-levels="{0}"/>'
    styles = f"<text:outline-style>{level.format(1)}{level.format(2)}</text:outline-style>"
    document = parse_odt(
        odt(
            '<text:h text:outline-level="1">A</text:h><text:h text:outline-level="2">B</text:h>'
            '<text:h text:outline-level="2" text:is-list-header="true">C</text:h>'
            '<text:h text:outline-level="2">D</text:h>',
            parts={"styles.xml": odf_styles(styles)},
        )
    )

    assert [title for _, title in headings(document)] == ["1 A", "1.1 B", "C", "1.2 D"]


def test_a_heading_may_begin_its_numbers_anew() -> None:
    level = '<text:outline-level-style text:level="{0}" style:num-format="1" text:display-levels="{0}"/>'
    styles = f"<text:outline-style>{level.format(1)}{level.format(2)}</text:outline-style>"
    anew = 'text:restart-numbering="true"'
    document = parse_odt(
        odt(
            f'<text:h text:outline-level="1" {anew} text:start-value="4">A</text:h>'
            '<text:h text:outline-level="2">B</text:h><text:h text:outline-level="2">C</text:h>'
            f'<text:h text:outline-level="2" {anew}>D</text:h><text:h text:outline-level="1">E</text:h>'
            f'<text:h text:outline-level="1" {anew} text:start-value="0">F</text:h>',
            parts={"styles.xml": odf_styles(styles)},
        )
    )

    assert [title for _, title in headings(document)] == ["4 A", "4.1 B", "4.2 C", "4.1 D", "5 E", "0 F"]


def test_a_list_that_holds_a_heading_is_layout() -> None:
    document = parse_odt(odt("<text:list><text:list-item><text:h>Frage</text:h></text:list-item></text:list>"))

    assert headings(document) == [(1, "Frage")]


def test_a_table_has_a_line_a_row() -> None:
    document = parse_odt(odt(_TABLE))

    assert texts(document, BlockKind.TABLE) == ["Amt | Zeit\nBau Süd | 9 Uhr"]


def test_a_table_that_holds_a_table_is_layout() -> None:
    document = parse_odt(
        odt(
            f"<table:table><table:table-row><table:table-cell>{_TABLE}</table:table-cell></table:table-row></table:table>"
        )
    )

    assert texts(document, BlockKind.TABLE) == ["Amt | Zeit\nBau Süd | 9 Uhr"]


def test_white_space_folds_but_for_its_signs() -> None:
    document = parse_odt(
        odt('<text:p>ein <text:span>  Wort</text:span>\n<text:s text:c="3"/>x<text:tab/>y<text:line-break/>z</text:p>')
    )

    assert document.text == "ein  Wort    x\ty\nz"


def test_footnotes_and_text_boxes_follow_their_paragraph() -> None:
    document = parse_odt(
        odt(
            "<text:p>Satz<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Fundstelle</text:p>"
            "</text:note-body></text:note> geht weiter<draw:frame><draw:text-box><text:p>Kasten</text:p>"
            "</draw:text-box></draw:frame></text:p><text:p>Ende</text:p>"
        )
    )

    assert texts(document, BlockKind.PROSE) == ["Satz geht weiter", "Fundstelle", "Kasten", "Ende"]


def test_what_a_reader_does_not_see_is_left_out() -> None:
    document = parse_odt(
        odt(
            "<text:tracked-changes><text:p>alt</text:p></text:tracked-changes>"
            "<text:p>neu<office:annotation><text:p>Notiz</text:p></office:annotation></text:p>"
            "<text:section><text:p>im Abschnitt</text:p></text:section>"
        )
    )

    assert texts(document, BlockKind.PROSE) == ["neu", "im Abschnitt"]


def test_a_locked_document_is_refused() -> None:
    locked = {
        "META-INF/manifest.xml": manifest("<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>")
    }

    with pytest.raises(UnreadableContent, match="encrypted: save it without a password"):
        parse_odt(odt("", parts=locked))


def test_another_package_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="no text document"):
        parse_odt(archive({"content.xml": "<x/>"}))


def test_author_and_times_are_attributes() -> None:
    meta = (
        '<office:document-meta xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<office:meta><meta:creation-date>2026-01-31T09:30:00.5</meta:creation-date><dc:creator>Ada</dc:creator>"
        "<dc:date>2026-02-01T10:00:00+01:00</dc:date></office:meta></office:document-meta>"
    )

    document = parse_odt(odt("<text:p>Text</text:p>", parts={"meta.xml": meta}))

    assert document.attributes == {
        "author": "Ada",
        "created": "2026-01-31T09:30:00",
        "modified": "2026-02-01T09:00:00Z",
    }


def test_words_in_a_shape_stand_below_its_paragraph() -> None:
    shape = "<draw:custom-shape><text:p>Kasten eins</text:p><text:p>Kasten zwei</text:p></draw:custom-shape>"
    document = parse_odt(odt(f"<text:p>Vor<draw:g>{shape}</draw:g>her</text:p>"))

    assert document.text == "Vorher\n\nKasten eins\n\nKasten zwei"


def test_hidden_text_is_left_out() -> None:
    hidden = '<style:text-properties text:display="none"/>'
    common = odf_styles(
        f'<style:style style:name="Intern" style:family="text">{hidden}</style:style>'
        f'<style:style style:name="Vermerk" style:family="paragraph">{hidden}</style:style>'
    )
    own = (
        '<style:style style:name="T1" style:family="text" style:parent-style-name="Intern"/>'
        '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Vermerk"/>'
        '<style:style style:name="T2" style:family="text" style:parent-style-name="Intern">'
        '<style:text-properties text:display="true"/></style:style>'
    )
    switch = '<text:{} text:condition="ooow:1" text:is-hidden="{}">{}</text:{}>'

    document = parse_odt(
        odt(
            '<text:p>Gebühr<text:span text:style-name="T1"> strittig</text:span> fällig'
            '<text:span text:style-name="T2">, sofort</text:span></text:p><text:p text:style-name="P1">Vermerk</text:p>'
            '<text:section text:display="none"><text:h>Intern</text:h></text:section>'
            '<text:section text:display="condition" text:is-hidden="true"><text:p>b</text:p></text:section>'
            "<text:section><text:p>Offen</text:p></text:section>"
            f"<text:p>{switch.format('hidden-paragraph', 'true', '', 'hidden-paragraph')}nie</text:p>"
            f"<text:p>{switch.format('hidden-paragraph', 'false', '', 'hidden-paragraph')}immer</text:p>"
            f"<text:p>vor{switch.format('hidden-text', 'true', 'mitten', 'hidden-text')}nach</text:p>",
            styles=own,
            parts={"styles.xml": common},
        )
    )

    assert document.text == "Gebühr fällig, sofort\n\nOffen\n\nimmer\n\nvornach"


_BOLD = (
    '<style:style style:name="P1" style:family="paragraph"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="P2" style:family="paragraph" style:parent-style-name="P1"/>'
    '<style:style style:name="T1" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="T2" style:family="text"><style:text-properties fo:font-weight="normal"/></style:style>'
)


def _bold(text: str, style: str = "P2") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def test_short_lines_in_bold_are_headings_where_none_is_marked() -> None:
    span = '<text:span text:style-name="T1">{}</text:span>'
    light = '<text:span text:style-name="T2">Ganz normal</text:span>'
    note = "<text:note><text:note-body><text:p>Neu.</text:p></text:note-body></text:note>"

    document = parse_odt(
        odt(
            f"{_bold('Satzung über das Freibad', 'P1')}{_bold('§ 1 Zweck')}<text:p>Text.</text:p>"
            f"<text:p>{span.format('§ 2 ')}{span.format('Zeiten')}{note}</text:p><text:p>Text.</text:p>"
            f"<text:p>{span.format('Wichtig')} ist das.</text:p>"
            f"<text:p>{span.format('Neu')}<text:a>Link</text:a></text:p>"
            f"{_bold(light)}"
            f"{_bold('Es gilt:')}<text:p>Text.</text:p>",
            styles=_BOLD,
        )
    )

    assert headings(document) == [(1, "Satzung über das Freibad"), (2, "§ 1 Zweck"), (2, "§ 2 Zeiten")]
    assert document.title == "Satzung über das Freibad"


def test_lines_in_bold_are_text_beside_headings_and_where_most_are_bold() -> None:
    text = "<text:p>Text.</text:p>"
    marked = f"<text:h>Zweck</text:h>{_bold('Zeiten')}{text}"
    letter = f"{_bold('Stadt Auental')}{_bold('Bauamt')}{text}"

    assert headings(parse_odt(odt(marked, styles=_BOLD))) == [(1, "Zweck")]
    assert headings(parse_odt(odt(letter, styles=_BOLD))) == []


def test_no_long_chain_of_styles_takes_long() -> None:
    # What is quadratic would run into the suite's timeout.
    chain = "".join(
        f'<style:style style:family="text" style:name="{n}" style:parent-style-name="{n + 1}"/>' for n in range(20_000)
    )

    assert parse_odt(odt("<text:p>Text</text:p>", styles=chain)).text == "Text"


def test_tables_and_sections_in_items_of_a_list_are_read() -> None:
    table = (
        "<table:table><table:table-row><table:table-cell><text:p>Amt</text:p></table:table-cell>"
        "<table:table-cell><text:p>Zeit</text:p></table:table-cell></table:table-row></table:table>"
    )
    document = parse_odt(
        odt(
            f"<text:list><text:list-item><text:number>1.</text:number><text:p>eins</text:p>{table}</text:list-item>"
            "<text:list-item><text:section><text:p>zwei</text:p></text:section></text:list-item></text:list>"
        )
    )

    assert document.text == "- eins\n  Amt\n  Zeit\n- zwei"


_POSITIONS = "".join(
    f'<style:style style:name="{name}" style:family="text">'
    f'<style:text-properties style:text-position="{position}"/></style:style>'
    for name, position in (("hoch", "super 58%"), ("tief", "-33% 58%"), ("normal", "0% 100%"))
)


def _span(style: str, inner: str) -> str:
    return f'<text:span text:style-name="{style}">{inner}</text:span>'


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (f"Gebühr: 500{_span('hoch', '1')} Euro", "Gebühr: 500 1 Euro"),
        (f"Abs. 5{_span('hoch', '<text:bookmark/>2')}3 Tage", "Abs. 5 2 3 Tage"),
        (f"10 m{_span('hoch', '2')}, CO{_span('tief', '2')}, 1{_span('normal', '0')}", "10 m2, CO2, 10"),
        (f"log{_span('tief', '2')}8", "log2 8"),
    ],
)
def test_a_raised_digit_is_no_digit_of_the_number_before(inner: str, expected: str) -> None:
    assert parse_odt(odt(f"<text:p>{inner}</text:p>", styles=_POSITIONS)).text == expected


def _form(*controls: str) -> str:
    return f"<office:forms><form:form>{''.join(controls)}</form:form></office:forms>"


def _drawn(anchor: str = "as-char") -> str:
    return f'<draw:control draw:control="c" text:anchor-type="{anchor}"/>'


@pytest.mark.parametrize(
    ("control", "shown"),
    [
        ('<form:text form:id="c" form:value="Vorgabe" form:current-value="Meier"/>', "Meier"),
        ('<form:textarea form:id="c"><text:p>Am</text:p><text:p>Bach 1</text:p></form:textarea>', "Am Bach 1"),
        ('<form:number xml:id="c" form:current-value="12"/>', "12"),
        ('<form:checkbox form:id="c" form:label="ja" form:current-state="checked"/>', "☒ ja"),
        ('<form:checkbox form:id="c" form:label="ja" form:state="checked" form:current-state="unchecked"/>', "☐ ja"),
        ('<form:radio form:id="c" form:current-selected="true"/>', "☒"),
        (
            (
                '<form:listbox form:id="c"><form:option form:label="Bayern" form:selected="true"/>'
                '<form:option form:label="Hessen" form:current-selected="true"/></form:listbox>'
            ),
            "Hessen",
        ),
        ('<form:fixed-text form:id="c" form:label="Beruf"/>', "Beruf"),
        ('<form:password form:id="c" form:current-value="geheim"/>', ""),
        ('<form:hidden form:id="c" form:value="geheim"/>', ""),
    ],
)
def test_fields_of_forms_show_what_they_hold(control: str, shown: str) -> None:
    assert parse_odt(odt(_form(control) + f"<text:p>Angabe:{_drawn()}</text:p>")).text == f"Angabe:{shown}"


def test_a_field_beside_its_paragraph_is_a_word_of_it() -> None:
    form = _form('<form:text form:id="c" form:current-value="Meier"/>')

    assert parse_odt(odt(f"{form}<text:p>{_drawn('paragraph')}Name</text:p>")).text == "Meier Name"


@pytest.mark.parametrize(("ticked", "sign"), [("true", "☒"), ("false", "☐")])
def test_check_boxes_of_word_in_an_odt_are_signs(ticked: str, sign: str) -> None:
    field = "vnd.oasis.opendocument.field"
    mark = (
        '<field:fieldmark xmlns:field="urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0" '
        f'field:type="{field}.FORMCHECKBOX"><field:param field:name="{field}.checkbox-result" '
        f'field:value="{ticked}"/></field:fieldmark>'
    )

    assert parse_odt(odt(f"<text:p>{mark} ja</text:p>")).text == f"{sign} ja"


_STRUCK = (
    '<text:outline-style><text:outline-level-style text:level="1" style:num-format="1" style:num-prefix="§ "/>'
    "</text:outline-style>"
    + "".join(
        f'<style:style style:name="{name}" style:family="{family}">'
        f'<style:text-properties style:text-line-through-style="{stroke}"/></style:style>'
        for name, family, stroke in (("weg", "text", "solid"), ("da", "text", "none"), ("W", "paragraph", "solid"))
    )
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"<text:p>Gebühr: {_span('weg', '10')} 20 Euro</text:p>", "Gebühr:  20 Euro"),
        (f'<text:p text:style-name="W">alt {_span("da", "neu")} alt {_span("x", "alt")}</text:p>', "neu"),
        (
            (
                f"<text:h>Eins</text:h><text:h>{_span('weg', 'Zwei')}</text:h>"
                '<text:h text:style-name="W">Drei</text:h><text:h>Vier</text:h>'
            ),
            "§ 1 Eins\n\n§ 4 Vier",
        ),
    ],
)
def test_text_struck_through_is_left_out(body: str, expected: str) -> None:
    assert parse_odt(odt(body, styles=_STRUCK)).text == expected
