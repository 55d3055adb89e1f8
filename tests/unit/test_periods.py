"""Periods are found wherever they stand in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.streams.retrieve.steps.periods import lacking, periods

PHRASES = (
    "15. Oktober 1990",
    "am 15.10.90",
    "1.1. bis 31.12.2023",
    "zwischen dem 1. April 2020 und dem 15. Mai 2021",
    "1999–2005",
    "seit 2013",
    "April 1 to May 15, 2023",
    "04/1999 – 12/2005",
    "2023/24",
    "2024-03-01T10:15",
)
fillers = st.text("Der Rat tagt, § 4 Abs. 2 gilt. 17 Tage\n", max_size=200).map(
    lambda text: f"{text} Die Ordnung gilt "
)


@pytest.mark.parametrize("phrase", PHRASES)
@given(before=fillers, after=fillers)
def test_a_text_tells_of_a_period_that_stands_anywhere_in_it(phrase: str, before: str, after: str) -> None:
    asked = periods(phrase, language="de")

    assert asked
    assert lacking(asked, [f"{before}{phrase}. {after}"], language="de") == []
    assert lacking(asked, [before, after], language="de") == asked
