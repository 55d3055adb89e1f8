"""Labels of the items of numbered lists."""

import re
from collections.abc import Callable, Mapping

from selectolax.lexbor import LexborNode

from freki.schemas.numerals import roman

_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,6})(?![0-9])")
_LETTERS = 26


class ItemLabels:
    """Counts the items of a list, as its `type`, `start` and `reversed` and the `value` of items say."""

    def __init__(self, of: LexborNode) -> None:
        """Begin a list; one that is not `<ol>` has dashes."""
        attributes = of.attributes
        self._numbered = of.tag == "ol"
        self._form = _FORMS.get(attributes.get("type") or "", str)
        self._step = -1 if self._numbered and "reversed" in attributes else 1
        first = integer(attributes.get("start"))
        if first is None:
            first = 1 if self._step > 0 else sum(item.tag == "li" for item in of.iter())
        self._next = first

    def label(self, item: LexborNode) -> str:
        """Count one more item, and return its label."""
        if not self._numbered:
            return "-"
        stated = integer(item.attributes.get("value"))
        number = self._next if stated is None else stated
        self._next = number + self._step
        return f"{self._form(number)}."


def integer(text: str | None) -> int | None:
    """Return the number of at most six digits at the start of an attribute; None if there is none."""
    found = _INTEGER.match(text or "")
    return int(found.group(1)) if found else None


def _letters(number: int) -> str:
    """Return a to z, then aa, ab and so on; a number below 1 in decimal."""
    if number < 1:
        return str(number)
    signs = ""
    while number:
        number, place = divmod(number - 1, _LETTERS)
        signs = chr(ord("a") + place) + signs
    return signs


_FORMS: Mapping[str, Callable[[int], str]] = {
    "a": _letters,
    "A": lambda number: _letters(number).upper(),
    "i": roman,
    "I": lambda number: roman(number).upper(),
}
