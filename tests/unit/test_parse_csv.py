"""Separated values become a table with a header, whatever separates them."""

import csv
from io import StringIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freki.operators.errors import UnreadableContent
from freki.operators.parse_csv import parse_csv
from freki.operators.recognise import Profile, recognise
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, parts

cells = st.text(alphabet='ab,;\t|"\n ß1', max_size=8)
tables = st.integers(2, 5).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=8)
)


@given(rows=tables, delimiter=st.sampled_from(";,\t|"))
@example(rows=[[', "', ","]], delimiter=",")
@example(rows=[["a", 'b; "c"\n; "d" ;']], delimiter=";")
def test_every_row_with_text_is_a_line_and_its_words_are_kept(rows: list[list[str]], delimiter: str) -> None:
    written = StringIO()
    csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)

    document = parse_csv(f"sep={delimiter}\n{written.getvalue()}")

    assert_outline(document)
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    lines = [" | ".join(" ".join(cell.split()) for cell in row).rstrip() for row in filled]
    assert [line.rstrip() for line in document.text.split("\n") if filled] == ([*lines] if filled else [])


@given(source=st.text(alphabet='ab,;\t|"\n\r\x00ß1', max_size=60))
def test_whatever_stands_there_is_a_table_or_refused(source: str) -> None:
    try:
        document = parse_csv(source)
    except UnreadableContent:
        return
    assert_outline(document)
    assert {block.kind for block in document.blocks} <= {BlockKind.TABLE}


@pytest.mark.parametrize(
    "source",
    [
        "Amt;Gebühr\nBau;12,50\nPass;37,00\n",
        "Amt\tGebühr\nBau\t12,50\nPass\t37,00\n",
        'Amt,Gebühr\nBau,"12,50"\nPass,"37,00"\n',
        "Amt|Gebühr\r\nBau|12,50\r\nPass|37,00\r\n",
        "sep=;\nAmt;Gebühr\nBau;12,50\nPass;37,00",
        'Amt;"Gebühr"\n\n;;\n"Bau";12,50\nPass;"37,00"\n',
    ],
)
def test_the_delimiter_is_found(source: str) -> None:
    document = parse_csv(source)

    (table,) = document.blocks
    assert parts(document, table) == ["Amt | Gebühr", "Bau | 12,50", "Pass | 37,00"]
    assert document.text[: table.header_end] == "Amt | Gebühr\n"


def test_lines_of_one_cell_are_rows_without_a_header() -> None:
    document = parse_csv("Bau\nPass, Ausweis\n")

    (table,) = document.blocks
    assert parts(document, table) == ["Bau", "Pass, Ausweis"]
    assert table.header_end == 0


def test_a_line_end_in_a_cell_is_a_space() -> None:
    assert parse_csv('Amt;Ort\nBau;"Markt 1\n12345 Stadt"').text == "Amt | Ort\nBau | Markt 1 12345 Stadt"


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ('a;b\n"x;1\ny;2\nz;3\n', ["a | b", '"x | 1', "y | 2", "z | 3"]),
        ('a;b\nx;"1', ["a | b", 'x | "1']),
        ('a;b\n"x\ny";2\nz;"3\nw;4', ["a | b", "x y | 2", 'z | "3', "w | 4"]),
        ('a;b\n"x\n\ny";2\n\n', ["a | b", "x y | 2"]),
        ('a;b\nx;2\nz;"3"', ["a | b", "x | 2", "z | 3"]),
    ],
)
def test_a_quote_without_an_end_is_part_of_its_cell(source: str, rows: list[str]) -> None:
    document = parse_csv(source)

    assert parts(document, document.blocks[0]) == rows


def test_many_cells_of_many_lines_before_a_quote_without_an_end_take_no_longer() -> None:
    assert parse_csv('"a\nb";' * 20_000 + '"c').text.startswith('"a\nb"')


def test_a_cell_too_long_by_a_quote_without_an_end_is_refused_with_its_line() -> None:
    with pytest.raises(UnreadableContent, match=r"line 2: .*close its quotation marks"):
        parse_csv('Amt;Ort\nBau;"' + "x;y\n" * 100_000)


def test_lines_of_any_length_are_read_where_nothing_is_quoted() -> None:
    long = "x" * 131_073

    assert parse_csv(f"{long}\ny\n").text == f"{long}\ny"
    assert parse_csv(f"a;{long}\nb;c\n").text == f"a | {long}\nb | c"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.TAB"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_tables_are_recognised_by_name_in_any_encoding(name: str, encoding: str) -> None:
    text = "Behörde;Straße\nBürgeramt;Südring\n" * 10

    found = recognise(name, None, text.encode(encoding))

    assert (found.profile, found.content) == (Profile.CSV, text)


def test_a_media_type_says_what_a_table_is() -> None:
    assert recognise("a", "text/tab-separated-values", b"a\tb").profile is Profile.CSV
    assert recognise("a", "text/csv; charset=utf-8", b"a,b").profile is Profile.CSV


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ('Amt, Ort\nBau, "Kiel, Hafen"\nPass, Kiel\n', ["Amt | Ort", "Bau | Kiel, Hafen", "Pass | Kiel"]),
        ('a,  "b, c" ,d\ne, "f ""g"", h", i\n', ["a | b, c | d", 'e | f "g", h | i']),
        ('a, "b" c, d\ne, f, g\n', ['a | "b" c | d', "e | f | g"]),
        ('a, 5" Rohr, d\ne, " f, g\n', ['a | 5" Rohr | d', 'e | " f | g']),
        (' "a, b", c\n "d, e", f\n', ["a, b | c", "d, e | f"]),
    ],
)
def test_spaces_before_a_quoted_cell_leave_it_quoted(source: str, rows: list[str]) -> None:
    document = parse_csv(source)

    assert document.text.split("\n") == rows


def test_many_quotes_behind_spaces_take_no_longer() -> None:
    assert parse_csv(', """a' * 20_000 + "\n").text
    assert parse_csv(' "' * 60_000 + "\n").text


@pytest.mark.parametrize("title", ["Gebühren 2024\n", "Stadt Auental\nGebühren 2024\n\n"])
def test_a_title_above_a_short_table_does_not_hide_its_delimiter(title: str) -> None:
    document = parse_csv(f"{title}Amt;Euro\nBau;12,50\n")

    assert document.text == f"{title.strip()}\nAmt | Euro\nBau | 12,50"
