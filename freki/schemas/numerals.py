"""Roman numerals, in which lists may count, and lawyers clauses."""

from itertools import pairwise

_MAX_ROMAN = 4000
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x")),
    *((9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


def roman(number: int) -> str:
    """Return a number from 1 to 3999 as Roman numeral in lower case; any other in decimal."""
    if not 0 < number < _MAX_ROMAN:
        return str(number)
    signs = ""
    for worth, sign in _ROMAN:
        signs += sign * (number // worth)
        number %= worth
    return signs


def value_of_roman(numeral: str) -> int:
    """Return the value of a Roman numeral, in upper or lower case. Raises KeyError for other signs."""
    worth = {sign: number for number, sign in _ROMAN}
    values = [worth[sign] for sign in numeral.lower()]
    return sum(-one if one < after else one for one, after in pairwise([*values, 0]))
