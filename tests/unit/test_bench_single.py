"""Rows of one document and of ten, beside what is asked for."""

from pathlib import Path

import pytest

from bench.pipeline import single
from bench.pipeline.__main__ import MEASUREMENTS


def run(number: int, cold: float, *warm: float) -> dict[str, object]:
    return {
        "documents": number,
        "goal_s": single.GOALS_S[number],
        "cold": {"seconds": cold, "chunks": 5 * number},
        "warm": [{"seconds": seconds, "chunks": 5 * number} for seconds in warm],
    }


FIGURES = {"characters": 4000, "runs": [run(1, 0.8, 0.1, 0.2, 0.3), run(10, 2.5, 0.9, 1.0, 1.1)]}


def test_each_number_of_documents_is_a_row_with_its_goal() -> None:
    (table,) = single.tables(FIGURES)

    cells = list(zip(*(column.cells for column in table.columns), strict=True))
    assert cells == [("1", "5.0", "0.80", "0.20", "0.30", "1"), ("10", "50.0", "2.50", "1.00", "1.10", "15")]


def test_it_is_a_measurement_of_the_bench(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (drawn,) = MEASUREMENTS["single"].draw(FIGURES, tmp_path)

    assert drawn.is_file()
