"""An XLSX becomes its sheets, each a page."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from io import BytesIO
from types import MappingProxyType
from zipfile import ZipFile

import pytest
from openpyxl import Workbook
from openpyxl.worksheet.filters import AutoFilter, FilterColumn, Filters
from openpyxl.worksheet.table import Table

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office import parse_xlsx
from freki.schemas.outline import BlockKind
from tests.unit.outlines import headings, parts, texts
from tests.unit.packages import archive, docx, xlsx


def test_each_sheet_is_a_page_with_its_name_as_heading() -> None:
    document = parse_xlsx(xlsx({"Überblick": [["Amt", "Zeit"], ["Bau", "9 Uhr"]], "Leer": [], "Rest": [["x"]]}))

    assert headings(document) == [(1, "Überblick"), (1, "Rest")]
    assert [document.text[start:][:4] for start in document.page_starts] == ["Über", "Rest", "Rest"]
    assert parts(document, document.blocks[1]) == ["Amt | Zeit", "Bau | 9 Uhr"]


def test_empty_rows_part_tables_and_empty_columns_are_cut_off() -> None:
    document = parse_xlsx(xlsx({"A": [[None, "a", None, "b"], [], [None, None, "c"], [None, "d"]]}))

    assert texts(document, BlockKind.TABLE) == ["a |  | b", " | c\nd"]


def test_values_are_shown_as_a_reader_would_write_them() -> None:
    workbook = Workbook()
    sheet = workbook.active
    moment = datetime.fromisoformat("2026-01-31T09:30")
    sheet.append([moment.date(), moment, moment.time(), 1234.5, 0.1 + 0.2, 7, True, "Straße\n5"])
    sheet.append([0.19, 1])
    sheet["A2"].number_format = sheet["B2"].number_format = "0%"
    content = BytesIO()
    workbook.save(content)

    (table,) = texts(parse_xlsx(content.getvalue()), BlockKind.TABLE)

    assert table.split("\n")[0] == "2026-01-31 | 2026-01-31 09:30 | 09:30:00 | 1234.5 | 0.3 | 7 | True | Straße 5"
    assert table.split("\n")[1].startswith("19% | 100%")


@pytest.mark.parametrize(
    ("number_format", "shown"),
    [
        ("0.0%;-0.0%", "1900%"),
        ('0" %"', "19"),
        (r"0\ \%", "19"),
        ("#,##0.0_%_);(0.0)", "19"),
        ("* %0", "1900%"),
        ("0*%", "19"),
        ("[$%]0", "19"),
    ],
)
def test_a_sign_that_is_only_written_makes_no_percentage(number_format: str, shown: str) -> None:
    workbook = Workbook()
    workbook.active["A1"] = 19
    workbook.active["A1"].number_format = number_format
    content = BytesIO()
    workbook.save(content)

    assert texts(parse_xlsx(content.getvalue()), BlockKind.TABLE) == [shown]


@pytest.mark.parametrize(
    ("value", "number_format", "shown"),
    [
        (1067, "00000", "01067"),
        (1067.0, '"D-"00000', "01067"),
        (512, "0000;[Red]-0000", "0512"),
        (101067, "00000", "101067"),
        (-5, "000", "-5"),
        (1.5, "000", "1.5"),
        (5, "0", "5"),
        (5, "00.00", "5"),
        (0.00001, "General", "0.00001"),
        (-0.000025, "0.000000", "-0.000025"),
        (12345678901234567890.0, "0", "12345678901234600000"),
        (1.5e-30, "General", "1.5e-30"),
        (0.0000005, "0.00000%", "0.00005%"),
        (timedelta(hours=25, minutes=30), "[h]:mm", "25:30"),
        (timedelta(hours=7, minutes=5, seconds=9), "[h]:mm:ss", "7:05:09"),
        (-timedelta(hours=1, minutes=15), "[h]:mm", "-1:15"),
    ],
)
def test_codes_have_their_leading_zeros_and_durations_their_hours(
    value: object, number_format: str, shown: str
) -> None:
    workbook = Workbook()
    workbook.active["A1"] = value
    workbook.active["A1"].number_format = number_format
    content = BytesIO()
    workbook.save(content)

    assert texts(parse_xlsx(content.getvalue()), BlockKind.TABLE) == [shown]


def test_hidden_sheets_are_left_out_but_counted() -> None:
    document = parse_xlsx(xlsx({"Rechnung": [["geheim"]], "A": [["offen"]]}, hidden=["Rechnung"]))

    assert "geheim" not in document.text
    assert document.page_starts == (0, 0)


def hiding(*, grouped: bool = False, filtered: str = "", table: str = "") -> bytes:
    """Write a sheet whose second row and third column are hidden."""
    workbook = Workbook()
    sheet = workbook.active
    for row in (["Name", "Ort", "Lohn"], ["Ada", "Bonn", 1], ["Ben", "Kiel", 2]):
        sheet.append(row)
    sheet.row_dimensions[2].hidden = sheet.column_dimensions["C"].hidden = True
    sheet.row_dimensions[2].outlineLevel = sheet.column_dimensions["C"].outlineLevel = int(grouped)
    sheet.auto_filter.ref = "A1:C3"
    if filtered:
        sheet.auto_filter.add_filter_column(1, [filtered])
    if table:
        sheet.auto_filter.ref = None
        own = Table(displayName="T", ref="A1:C3")
        own.autoFilter = AutoFilter(ref="A1:C3", filterColumn=[FilterColumn(colId=1, filters=Filters(filter=[table]))])
        sheet.add_table(own)
    content = BytesIO()
    workbook.save(content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (hiding(), "Name | Ort\nBen | Kiel"),
        (hiding(grouped=True), "Name | Ort | Lohn\nAda | Bonn | 1\nBen | Kiel | 2"),
        (hiding(filtered="Kiel"), "Name | Ort\nAda | Bonn\nBen | Kiel"),
        (hiding(table="Kiel"), "Name | Ort\nAda | Bonn\nBen | Kiel"),
    ],
    ids=["hidden", "grouped", "filtered", "filtered-table"],
)
def test_hidden_rows_and_columns_are_left_out_unless_a_reader_sees_that_there_is_more(
    content: bytes, shown: str
) -> None:
    assert texts(parse_xlsx(content), BlockKind.TABLE) == [shown]


def test_a_hidden_row_of_seven_digits_hides_no_other() -> None:
    content = _edited(xlsx({"A": [["x"]]}), '<row r="1"', '<row r="104857"')

    document = parse_xlsx(_edited(content, "</sheetData>", '<row r="1048570" hidden="1"/></sheetData>'))

    assert texts(document, BlockKind.TABLE) == ["x"]


def test_many_hidden_columns_without_end_take_no_longer() -> None:
    columns = "<cols>" + '<col min="2" max="9999999" hidden="1"/>' * 50_000 + "</cols><sheetData>"

    document = parse_xlsx(_edited(xlsx({"A": [["x", "y"]]}), "<sheetData>", columns))

    assert texts(document, BlockKind.TABLE) == ["x"]


def test_a_sheet_that_states_too_small_a_size_is_read_whole() -> None:
    assert (
        "fünf"
        in parse_xlsx(_edited(xlsx({"A": [[f"Zeile {word}"] for word in ("eins", "fünf")]}), "A1:A2", "A1:A1")).text
    )


@pytest.mark.exhaustive
def test_a_sheet_of_empty_rows_without_end_is_refused() -> None:
    content = _edited(xlsx({"A": [["x"]]}), '<row r="1"', '<row r="99999999999"')

    with pytest.raises(UnreadableContent, match="more than 5000000 cells"):
        parse_xlsx(content)


def test_several_sheets_of_one_part_are_refused() -> None:
    content = _edited(xlsx({"A": [["x"]], "B": [["y"]]}), 'r:id="rId2"', 'r:id="rId1"', of="workbook.xml")

    with pytest.raises(UnreadableContent, match="several of its sheets are one part"):
        parse_xlsx(content)


@pytest.mark.parametrize(("old", "new"), [('r="2"', 'r="1"'), ('<row r="1"', '<row r="3"'), ('r="A1"', 'r="C1"')])
def test_rows_and_cells_out_of_order_are_refused_where_some_would_be_left_out(old: str, new: str) -> None:
    with pytest.raises(UnreadableContent, match="out of order"):
        parse_xlsx(_edited(xlsx({"A": [["a", "b"], ["c", "d"]]}), old, new))


def test_rows_and_cells_that_leave_some_out_or_state_no_place_are_read() -> None:
    content = xlsx({"A": [["a", *[None] * 26, "b"], [], ["c"]]})

    assert parse_xlsx(_edited(_edited(content, 'r="A1"', ""), 'r="3"', "")).text.split("\n")[2:] == [
        "a" + " | " * 27 + "b",
        "c",
    ]


def test_what_openpyxl_cannot_read_is_refused() -> None:
    for content in (
        docx(""),
        archive({"[Content_Types].xml": "<Types/>"}),
        _edited(xlsx({"A": [["x"]]}), 't="', 's="9" t="'),
    ):
        with pytest.raises(UnreadableContent, match="save it again"):
            parse_xlsx(content)


def _edited(content: bytes, old: str, new: str, *, of: str = "sheets/") -> bytes:
    """Return a workbook with a change in its sheets, or in other parts whose names hold `of`."""
    with ZipFile(BytesIO(content)) as packed:
        parts = {name: packed.read(name).decode() for name in packed.namelist()}
    return archive(
        {name: part if of not in name else re.sub(re.escape(old), new, part) for name, part in parts.items()}
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("9" * 400, "9" * 400 + "00%"),
        ("-1" + "0" * 25, "-1" + "0" * 27 + "%"),
        ("0.19", "19%"),
        ("7", "700%"),
        ("1.25E307", "1.25e+309%"),
    ],
)
def test_a_percentage_of_any_size_is_read(written: str, shown: str) -> None:
    workbook = Workbook()
    workbook.active.append([0.5, "Rest"])
    workbook.active["A1"].number_format = "0%"
    content = BytesIO()
    workbook.save(content)

    (table,) = texts(parse_xlsx(_edited(content.getvalue(), "<v>0.5</v>", f"<v>{written}</v>")), BlockKind.TABLE)

    assert table == f"{shown} | Rest"


@pytest.mark.parametrize("part", ["xl/worksheets/sheet1.xml", "xl/theme/theme1.xml", "xl/workbook.xml"])
@pytest.mark.parametrize("suffix", [".bin", ".XML"])
def test_parts_of_other_names_are_checked(part: str, suffix: str) -> None:
    other = part.removesuffix(".xml") + suffix
    content = _renamed(xlsx({"A": [["a", "b"]]}), {part: other}, before={other: "<!DOCTYPE x>"})

    assert texts(parse_xlsx(_renamed(xlsx({"A": [["a", "b"]]}), {part: other})), BlockKind.TABLE) == ["a | b"]
    with pytest.raises(UnreadableContent, match="declares a document type"):
        parse_xlsx(content)


def _renamed(content: bytes, names: Mapping[str, str], before: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Rename parts, with all that refers to them; before: what is written before the root of a part."""
    renamed: dict[str, bytes] = {}
    with ZipFile(BytesIO(content)) as packed:
        for name in packed.namelist():
            text = packed.read(name)
            for old, new in names.items():
                text = text.replace(old.encode(), new.encode())
            folder, _, file = name.rpartition("/_rels/")
            owner = names.get(f"{folder}/{file.removesuffix('.rels')}", "")
            target = f"{folder}/_rels/{owner.rpartition('/')[2]}.rels" if owner else names.get(name, name)
            renamed[target] = before.get(target, "").encode() + text
    return archive(renamed)
