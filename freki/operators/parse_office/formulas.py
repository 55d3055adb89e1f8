"""Formulas of Office Math as a line of text, in which a fraction or a power is no other number."""

from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element

FORMULAS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "{m}f": (("", "{m}num"), ("/", "{m}den")),
    "{m}sSup": (("", "{m}e"), ("^", "{m}sup")),
    "{m}sSub": (("", "{m}e"), ("_", "{m}sub")),
    "{m}sSubSup": (("", "{m}e"), ("_", "{m}sub"), ("^", "{m}sup")),
    "{m}rad": (("", "{m}deg"), ("√", "{m}e")),
}
"""The operands of each formula, each below the sign that goes before it."""


def formula(element: Element, text_of: Callable[[Element], str]) -> str:
    """Return a formula, with an operand of several signs in brackets: `(a+b)/2`."""
    return "".join(
        f"{sign}{_operand(text_of(operand).strip())}"
        for sign, name in FORMULAS[element.tag]
        if (operand := element.find(name)) is not None
    )


def _operand(text: str) -> str:
    return text if text.isalnum() or len(text) <= 1 or _is_decimal(text) else f"({text})"


def _is_decimal(text: str) -> bool:
    return text.replace(",", "", 1).replace(".", "", 1).isdecimal()
