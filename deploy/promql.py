"""Series and labels named by a PromQL expression. Supports only the syntax used in this folder."""

import re
from collections.abc import Iterator

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_MATCHERS = re.compile(r"\{[^}]*\}")
_RANGE = re.compile(r"\[[^\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"(?<![\w:.])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])")
_SELECTOR = re.compile(r"(?<![\w:])([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_KEYWORDS = frozenset({"and", "or", "unless", "offset", "bool", "inf", "nan"})


def series(expression: str) -> set[str]:
    """Return the names of all series that an expression selects."""
    rest = _without_strings(expression)
    for noise in (_MATCHERS, _RANGE, _GROUPING):
        rest = noise.sub(" ", rest)
    return {name for name in _NAME.findall(rest) if name.lower() not in _KEYWORDS}


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each series that is selected by labels, with the names of these labels."""
    for name, matchers in _SELECTOR.findall(_without_strings(expression)):
        yield name, set(_LABEL.findall(matchers))


def groupings(expression: str) -> set[str]:
    """Return the names of all labels that an expression groups by or joins on."""
    found = _GROUPING.findall(_without_strings(expression))
    return {label.strip() for labels in found for label in labels.split(",") if label.strip()}


def _without_strings(expression: str) -> str:
    return _STRING.sub('""', expression)
