"""A PPTX becomes its slides, each a page."""

import pytest

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office import parse_pptx
from freki.schemas.outline import BlockKind
from tests.unit.outlines import headings, parts, texts
from tests.unit.packages import archive, docx, notes, pptx, relations, shape, slide_table


def test_titles_come_first_and_are_headings() -> None:
    document = parse_pptx(pptx(shape("Unten") + shape("Haushalt 2026", kind="title"), shape("Ende", kind="ctrTitle")))

    assert headings(document) == [(1, "Haushalt 2026"), (1, "Ende")]
    assert texts(document, BlockKind.PROSE) == ["Unten"]


def test_each_slide_is_a_page() -> None:
    document = parse_pptx(pptx(shape("eins"), "", shape("drei")))

    assert document.text == "eins\n\ndrei"
    assert document.page_starts == (0, 6, 6)


def test_paragraphs_of_a_placeholder_are_a_list() -> None:
    document = parse_pptx(pptx(shape("Straßen", "Schulen", kind="body") + shape("lose", "Zeilen")))

    listed, prose = document.blocks
    assert parts(document, listed) == ["- Straßen", "- Schulen"]
    assert document.text[prose.start : prose.end] == "lose\nZeilen"


def test_tables_and_groups_are_read() -> None:
    document = parse_pptx(
        pptx(slide_table(("Amt", "Zeit"), ("Bau", "9 Uhr")) + f"<p:grpSp>{shape('Gruppe')}</p:grpSp>")
    )

    assert texts(document, BlockKind.TABLE) == ["Amt | Zeit\nBau | 9 Uhr"]
    assert texts(document, BlockKind.PROSE) == ["Gruppe"]


def test_hidden_slides_and_running_feet_are_left_out() -> None:
    document = parse_pptx(pptx(shape("versteckt"), shape("Text") + shape("7", kind="sldNum"), hidden=[0]))

    assert document.text == "Text"
    assert document.page_starts == (0, 0)


def test_notes_and_diagrams_end_their_slide() -> None:
    document = parse_pptx(
        pptx(
            shape("Text"),
            parts={
                "ppt/slides/_rels/slide0.xml.rels": relations(
                    diagramData="../diagrams/data1.xml", notesSlide="../notesSlides/notesSlide1.xml"
                ),
                "ppt/diagrams/data1.xml": "<x xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main'>"
                "<a:p><a:r><a:t>Schritt</a:t></a:r></a:p></x>",
                "ppt/notesSlides/notesSlide1.xml": notes("Notiz"),
            },
        )
    )

    assert document.text == "Text\n\n- Schritt\n\nNotiz"


def test_another_package_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="no presentation"):
        parse_pptx(docx(""))
    with pytest.raises(UnreadableContent, match="no presentation"):
        parse_pptx(archive({"_rels/.rels": relations(officeDocument="missing.xml")}))


def test_hidden_shapes_are_left_out() -> None:
    hidden = shape("Verborgen").replace("<p:nvPr>", '<p:cNvPr id="2" name="a" hidden="1"/><p:nvPr>')
    shown = shape("Offen").replace("<p:nvPr>", '<p:cNvPr id="3" name="b" hidden="0"/><p:nvPr>')
    group = f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="4" name="c" hidden="1"/></p:nvGrpSpPr>{shape("Innen")}</p:grpSp>'

    assert parse_pptx(pptx(hidden + shown + group)).text == "Offen"


def test_a_raised_digit_is_no_digit_of_the_number_before() -> None:
    raised = shape("500|Euro").replace(
        "|", '</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>1</a:t></a:r><a:r><a:rPr baseline="0"/><a:t> '
    )

    assert parse_pptx(pptx(raised)).text == "500 1 Euro"


def test_a_fraction_is_no_other_number() -> None:
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    half = f"<m:f {math}><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"

    assert parse_pptx(pptx(shape("Anteil: ").replace("</a:r>", f"</a:r>{half}"))).text == "Anteil: 1/2"


@pytest.mark.parametrize(
    ("strike", "expected"), [("sngStrike", "20 Euro"), ("dblStrike", "20 Euro"), ("noStrike", "10 20 Euro")]
)
def test_text_struck_through_is_left_out(strike: str, expected: str) -> None:
    slide = shape("X").replace("<a:r><a:t>X", f'<a:r><a:rPr strike="{strike}"/><a:t>10 </a:t></a:r><a:r><a:t>20 Euro')

    assert parse_pptx(pptx(slide)).text == expected
