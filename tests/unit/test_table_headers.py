"""The rows that name the columns of a table are told from those with data."""

from collections.abc import Sequence

import pytest

from freki.operators.chunk.headers import TableHeaders
from freki.operators.parse_html import parse_html
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_office import parse_docx, parse_xlsx
from freki.operators.parse_rst import parse_rst
from freki.schemas.outline import Block, BlockKind, ParsedDocument, header_rows
from tests.unit.packages import docx, word_table, xlsx


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["Amt", "Zeit"], ["Bau", "9 Uhr"]], 1),
        ([["Gebühren 2026", ""], ["Leistung", "Betrag"], ["Ausweis", "37,00 €"]], 2),
        ([["Amt", "Zeit"]], 0),
        ([["Bau", "9"], ["Soziales", "10"]], 0),
        ([["2024-01-31", "Bau"], ["2024-02-01", "Soziales"]], 0),
        ([["37,00 EUR", "Ausweis"], ["60,00 EUR", "Pass"]], 0),
        ([["Amt", "Amt"], ["Bau", "Pass"]], 0),
        ([["x" * 100, "Amt"], ["Bau", "Pass"]], 0),
        ([["Bau"], ["Pass"]], 0),
        ([["Amt", ""], ["Bau", "Pass"]], 0),
        ([], 0),
    ],
)
def test_a_header_is_a_row_of_different_short_names(rows: Sequence[Sequence[str]], expected: int) -> None:
    assert header_rows(rows) == expected


def headers(document: ParsedDocument) -> list[str]:
    return [document.text[block.start : block.header_end].strip() for block in document.blocks]


def test_html_marks_headers_with_th_and_thead() -> None:
    table = "<table>{}<tr><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>"

    assert headers(parse_html(table.format("<tr><th>7</th><th>8</th></tr>"))) == ["7 | 8"]
    assert headers(parse_html(table.format("<tr><th>5</th></tr><tr><th>7</th><th>8</th></tr>"))) == ["5\n7 | 8"]
    assert headers(parse_html(table.format(""))) == [""]
    assert headers(parse_html("<table><tr><th>a</th><td>1</td></tr><tr><th>b</th><td>2</td></tr></table>")) == [""]
    assert headers(parse_html("<table><tr><td>Amt</td><td>Zeit</td></tr><tr><td>Bau</td><td>9</td></tr></table>")) == [
        "Amt | Zeit"
    ]


def test_a_grid_table_has_its_header_above_the_equals_signs() -> None:
    grid = "+-----+------+\n| Amt | Zeit |\n+=====+======+\n| Bau | 9    |\n+-----+------+\n"

    assert headers(parse_rst(grid)) == ["+-----+------+\n| Amt | Zeit |\n+=====+======+"]
    assert headers(parse_rst(grid.replace("=", "-"))) == [""]
    assert headers(parse_rst("===  ===\n1    2\n3    4\n===  ===\n")) == [""]


def test_a_list_table_has_the_header_rows_that_it_states() -> None:
    header = ".. list-table:: Zeiten\n   :header-rows: 1\n\n   * - Amt\n     - Zeit"
    table = f"{header}\n   * - Bau\n     - 9\n   * - Pass\n     - 10\n"

    document = parse_rst(table)

    assert headers(document) == [header]
    assert [document.text[seam:].split()[2] for seam in document.blocks[0].seams] == ["Pass"]
    assert headers(parse_rst(table.replace(":header-rows: 1", ":header-rows: 3"))) == [""]
    assert headers(parse_rst(table.replace("   :header-rows: 1\n", ""))) == [""]


def test_a_csv_table_has_the_header_that_it_states() -> None:
    rows = '   "Bau,\n   Süd", 9\n\n   Pass, 10\n   Wahl, 11\n'
    stated = '.. csv-table:: Zeiten\n   :header: "Amt", "Zeit"\n   :widths: 15, 10'
    counted = ".. csv-table:: Zeiten\n   :header-rows: 1\n\n   Amt, Zeit"

    for header, table in ((stated, f"{stated}\n\n{rows}"), (counted, f"{counted}\n{rows}")):
        document = parse_rst(table)
        assert headers(document) == [header]
        assert [document.text[seam:].split()[0] for seam in document.blocks[0].seams] == ["Pass,", "Wahl,"]
    assert headers(parse_rst(f".. csv-table:: Zeiten\n   :header-rows: 9\n\n{rows}")) == [""]
    assert headers(parse_rst(".. csv-table:: Zeiten\n   :header: Amt, Zeit\n   :file: zeiten.csv\n")) == [""]
    assert headers(parse_rst(f".. csv-table:: Zeiten\n\n{rows}")) == [""]


def test_quotation_marks_of_a_csv_table_may_be_others() -> None:
    table = ".. csv-table::\n   :header: Rohr, Maß\n   :quote: '\n\n   'Typ\n   A', 5\"\n   B, 6\n   C, 7\n"

    document = parse_rst(table)

    assert [document.text[seam:].split()[0] for seam in document.blocks[0].seams] == ["B,", "C,"]


def test_a_table_with_a_title_has_the_header_of_its_grid() -> None:
    header = ".. table:: Zeiten\n\n   ====  ====\n   Amt   Zeit\n   ====  ===="

    document = parse_rst(f"{header}\n   Bau   9\n   Pass  10\n   ====  ====\n\n   Text\n\nText\n")

    assert headers(document)[0] == header
    assert any(document.text[seam:].lstrip().startswith("Pass") for seam in document.blocks[0].seams)
    assert headers(parse_rst(".. table::\n\n   +--+--+\nText\n   ===  ===\n   ===  ===\n")) == ["", ""]


def test_a_table_of_html_in_markdown_has_its_header() -> None:
    table = "<table>\n{}<tr><td>1</td><td>2</td></tr>\n<tr><td>3</td><td>4</td></tr>\n</table>\n"
    marked = "<thead>\n<tr><th>7</th><th>8</th></tr>\n</thead>\n"

    document = parse_markdown(table.format(marked))

    assert headers(document) == [f"<table>\n{marked.rstrip()}"]
    assert [document.text[seam:].splitlines()[0] for seam in document.blocks[0].seams] == [
        "<tr><td>3</td><td>4</td></tr>"
    ]
    assert headers(parse_markdown(table.format(""))) == [""]
    assert headers(parse_markdown("<table><tr><th>a</th><td>1</td></tr><tr><th>b</th><td>2</td></tr></table>")) == [""]


def test_a_table_of_html_in_markdown_may_have_a_first_row_that_looks_like_a_header() -> None:
    header = '  <TABLE border="1">\n<TR><TD><b>Amt</b><TD>Zeit'

    assert headers(parse_markdown(f"{header}\n<TR><TD>Bau<TD>9\n</TABLE>")) == [header.strip()]
    assert headers(parse_markdown(f"{header}\n<TR><TD><table><tr><td>9</td></tr></table>\n</TABLE>")) == [""]


def test_word_repeats_the_rows_that_it_is_told_to() -> None:
    table = word_table(("0", "1"), ("2", "3"), ("4", "5"))

    assert headers(parse_docx(docx(table))) == [""]
    assert headers(parse_docx(docx(table.replace("<w:tr>", "<w:tr><w:trPr><w:tblHeader/></w:trPr>", 1)))) == ["0 | 1"]


def test_first_rows_of_sheets_and_of_other_tables_of_word_are_headers_if_they_look_like_it() -> None:
    sheet = parse_xlsx(xlsx({"A": [["Amt", "Zeit"], ["Bau", 9]], "B": [[1, 2], [3, 4]]}))

    assert headers(sheet) == ["", "Amt | Zeit", "", ""]
    assert headers(parse_docx(docx(word_table(("Amt", "Zeit"), ("Bau", "9"))))) == ["Amt | Zeit"]


def test_a_header_as_long_as_its_rows_is_read_once() -> None:
    # Read again for each chunk, it would run into the suite's timeout.
    header, rows = "Amt | Zeit\n" * 400_000, "9\n" * 20_000
    table = Block(kind=BlockKind.TABLE, start=0, end=len(header + rows), header_end=len(header))
    names = TableHeaders(ParsedDocument(text=header + rows, blocks=(table,), title=None, attributes={}))

    continued = {names.at(start) for start in range(len(header), len(header + rows), 2)}

    assert [name[:10] for name in continued] == ["Amt | Zeit"]
