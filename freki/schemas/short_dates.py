"""Dates with two digits for the year, as letters and notes have them: 01.02.24."""

import re

SHORT_DATE = (
    r"(?<![\w.,/-])(?<!ersion\s)(?<!elease\s)(?<![A-Z][A-Z]\s)"
    r"(?:(?:0[1-9]|[12]\d|3[01])\.(?:0[1-9]|1[0-2])"
    r"|(?:(?<=\b[Aa]m\s)|(?<=\b[VvZz][ou]m\s))(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2]))"
    r"\.\d\d(?![\w%]|[.,/-]\d)"
)
"""Pattern of a day, a month and a year, in this order.

Day and month have two digits, or stand behind am, vom or zum: 1.2.10 may be a version.
"""

DAY_OF_YEAR = (
    r"(?<![\w.,/-])(?<!ersion\s)(?<!elease\s)(?<![A-Z][A-Z]\s)"
    r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])(?:\.(?![\w.])|(?=\s(?:bis|[-–])\s\d))"
)
"""Pattern of a day and a month without a year, as in `14.03.` and `1.4. bis 15.5.2023`."""

_PIVOT = 69
_SHORT = re.compile(SHORT_DATE)


def with_full_years(text: str) -> str:
    """Return a text with years of four digits: 01.02.24 is of 2024, 01.02.69 of 1969, as POSIX reads them."""
    return _SHORT.sub(lambda found: f"{found[0][:-2]}{_century(int(found[0][-2:]))}{found[0][-2:]}", text)


def _century(year: int) -> int:
    return 19 if year >= _PIVOT else 20
