"""Lists of the command line are tables for people, and JSON for scripts."""

import json
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from freki.cli.rows import Rows, whole_table

ROW = {"name": "a" * 300, "size_bytes": 12_345, "answers": True, "groups": ("x", "y"), "since": None}


def rows(*, as_json: bool) -> Rows:
    return Rows(*ROW, as_json=as_json, numbers=("size_bytes",))


def test_a_table_has_units_and_names_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    table = rows(as_json=False)
    table.add(ROW, size_bytes=Text("12 kB"))
    table.end(nothing="none")

    printed = capsys.readouterr().out
    assert "size bytes" not in printed
    assert "12 kB" in printed
    assert printed.count("a") >= 300
    assert {"yes", "x, y", "–"} <= {cell.strip() for line in printed.splitlines() for cell in line.split("  ")}


def test_a_name_that_leaves_half_of_the_line_is_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    name = "mmarco-mMiniLMv2-L12-H384-v1"
    table = Rows("model", "kind", "state", "licence", as_json=False)
    table.add({"model": name, "kind": "reranker", "state": "needs download " * 3, "licence": "Apache-2.0"})
    table.end(nothing="none")

    assert name in capsys.readouterr().out


def test_an_empty_table_says_so_and_empty_json_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    rows(as_json=False).end(nothing="nobody has groups")
    assert capsys.readouterr().out == "nobody has groups\n"
    rows(as_json=True).end(nothing="nobody has groups")
    assert capsys.readouterr().out == ""


def test_json_has_values_as_they_are_in_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    lines = rows(as_json=True)
    lines.add(ROW, size_bytes="12 kB")
    lines.add(ROW)
    lines.end(nothing="none")

    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [{**ROW, "groups": ["x", "y"]}] * 2


def test_no_cell_is_cut_in_a_narrow_terminal() -> None:
    file, names = StringIO(), ("handbook/" + "a" * 60, "1795792189177")
    table = whole_table("document", "version", box=None)
    table.add_row(*names)
    Console(file=file, width=40).print(table)

    letters = "".join(file.getvalue().split()).removeprefix("documentversion")
    assert sorted(letters) == sorted("".join(names))
