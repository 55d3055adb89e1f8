"""An ODS becomes its sheets, each a page."""

from collections.abc import Sequence

import pytest

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office import parse_ods
from freki.schemas.outline import BlockKind
from tests.unit.outlines import headings, parts, texts
from tests.unit.packages import odt, opendocument

_HIDDEN = '<style:style style:name="ta2"><style:table-properties table:display="false"/></style:style>'


def cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"


def row(*cells: str, times: int = 1) -> str:
    return f'<table:table-row table:number-rows-repeated="{times}">{"".join(cells)}</table:table-row>'


def sheet(name: str, rows: Sequence[str], style: str = "ta1") -> str:
    return f'<table:table table:name="{name}" table:style-name="{style}">{"".join(rows)}</table:table>'


EMPTY = '<table:table-cell table:number-columns-repeated="1024"/>'


def test_each_sheet_is_a_page_with_its_name_as_heading() -> None:
    overview = sheet("Überblick", [row(cell("Amt"), cell("Zeit"), EMPTY), row(cell("Bau"), cell("9 Uhr"))])
    document = parse_ods(opendocument("spreadsheet", overview + sheet("Leer", []) + sheet("Rest", [row(cell("x"))])))

    assert headings(document) == [(1, "Überblick"), (1, "Rest")]
    assert [document.text[start:][:4] for start in document.page_starts] == ["Über", "Rest", "Rest"]
    assert parts(document, document.blocks[1]) == ["Amt | Zeit", "Bau | 9 Uhr"]


def test_what_is_repeated_is_written_as_often_but_for_empty_rows() -> None:
    rows = [row(cell("a", 'table:number-columns-repeated="2"'), times=2), row(EMPTY, times=1_048_000), row(cell("b"))]

    document = parse_ods(opendocument("spreadsheet", sheet("A", rows)))

    assert texts(document, BlockKind.TABLE) == ["a | a\na | a", "b"]


def test_dates_are_iso_and_all_else_is_as_it_is_shown() -> None:
    cells = row(
        cell("31.01.26", 'office:date-value="2026-01-31"'),
        cell("31.01.26 9:30", 'office:date-value="2026-01-31T09:30:00"'),
        cell("1.234,50 €", 'office:value="1234.5"'),
    )

    document = parse_ods(opendocument("spreadsheet", sheet("A", [cells])))

    assert texts(document, BlockKind.TABLE) == ["2026-01-31 | 2026-01-31 09:30 | 1.234,50 €"]


def test_hidden_sheets_are_left_out_but_counted() -> None:
    sheets = sheet("Rechnung", [row(cell("geheim"))], style="ta2") + sheet("A", [row(cell("offen"))])

    document = parse_ods(opendocument("spreadsheet", sheets, styles=_HIDDEN))

    assert "geheim" not in document.text
    assert document.page_starts == (0, 0)


@pytest.mark.parametrize(
    ("visibility", "group", "shown"),
    [
        ("collapse", "", ["Name | Ort\nBen | Kiel"]),
        ("collapse", "row", ["Name | Ort\nAda | Bonn\nBen | Kiel"]),
        ("collapse", "column", ["Name | Lohn | Ort\nBen | 2 | Kiel"]),
        ("filter", "", ["Name | Lohn | Ort\nAda | 1 | Bonn\nBen | 2 | Kiel"]),
    ],
)
def test_hidden_rows_and_columns_are_left_out_unless_a_reader_sees_that_there_is_more(
    visibility: str, group: str, shown: Sequence[str]
) -> None:
    hidden = f'table:visibility="{visibility}"'
    column = f"<table:table-column {hidden}/>"
    second = row(cell("Ada"), cell("1"), cell("Bonn")).replace("<table:table-row", f"<table:table-row {hidden}")
    if group == "row":
        second = f'<table:table-row-group table:display="false">{second}</table:table-row-group>'
    if group == "column":
        column = f'<table:table-column-group table:display="false">{column}</table:table-column-group>'
    columns = f'<table:table-column/>{column}<table:table-column table:number-columns-repeated="16382"/>'
    rows = [columns, row(cell("Name"), cell("Lohn"), cell("Ort")), second, row(cell("Ben"), cell("2"), cell("Kiel"))]

    assert texts(parse_ods(opendocument("spreadsheet", sheet("A", rows))), BlockKind.TABLE) == shown


def test_a_sheet_of_rows_without_end_is_refused() -> None:
    rows = [row(*[cell("x", 'table:number-columns-repeated="16384"')] * 2, times=999_999)]

    with pytest.raises(UnreadableContent, match="more than 5000000 cells"):
        parse_ods(opendocument("spreadsheet", sheet("A", rows)))


def test_a_text_counts_as_often_as_its_cells_are_repeated() -> None:
    rows = [row(cell("x" * 1_000, 'table:number-columns-repeated="10"'), times=100)]
    content = opendocument("spreadsheet", sheet("A", rows))

    assert len(parse_ods(content, max_unpacked_bytes=1_000_000).text) > 1_000_000
    with pytest.raises(UnreadableContent, match="more than 999999 characters in its cells: split it"):
        parse_ods(content, max_unpacked_bytes=999_999)


def test_another_package_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="no spreadsheet document"):
        parse_ods(odt(""))


def test_text_boxes_on_a_sheet_are_read_below_its_tables() -> None:
    box = "<draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    group = f"<draw:g><draw:custom-shape><text:p>Stand Mai</text:p></draw:custom-shape>{box.format('Quelle')}</draw:g>"
    shapes = f"<table:shapes>{group}<draw:frame><draw:image/></draw:frame></table:shapes>"
    cells = row(cell("a"), f"<table:table-cell>{box.format('im Kasten')}<text:p>b</text:p></table:table-cell>")

    document = parse_ods(opendocument("spreadsheet", sheet("A", [shapes, cells]) + sheet("B", [shapes])))

    assert headings(document) == [(1, "A"), (1, "B")]
    assert texts(document, BlockKind.TABLE) == ["a | im Kasten b"]
    assert texts(document, BlockKind.PROSE) == ["Stand Mai", "Quelle"] * 2
    assert document.text[document.page_starts[1] :].startswith("B")
