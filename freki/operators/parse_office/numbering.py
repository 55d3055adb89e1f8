"""Automatic numbers of headings and list items in Word, which are not part of the text."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple
from xml.etree.ElementTree import Element

from freki.schemas.numerals import roman

_PLACE = re.compile(r"%([1-9])")
_MAX_DIGITS = 6
_LETTERS = 26
_MAX_LETTER_ROUNDS = 20
_OFF = {"0", "false", "off"}


class _Level(NamedTuple):
    """Number format of a level."""

    form: str
    text: str
    """Template, with `%1` for the number of the outermost level."""
    start: int
    restart: int
    """Number of outermost levels of which each next number starts this level again; 0: it never starts again."""
    is_legal: bool
    """Whether it shows the numbers of all levels in decimal."""


class Numbering:
    """Counts the paragraphs of each list."""

    def __init__(self, numbering: Element | None) -> None:
        """Read the definitions in `word/numbering.xml`."""
        found = list(numbering if numbering is not None else ())
        kinds = [element for element in found if element.tag == "{w}abstractNum"]
        styled = {style: kind for kind in kinds if (style := value(kind, "{w}styleLink"))}
        self._levels = {
            (kind.get("{w}abstractNumId", ""), depth): level
            for kind in kinds
            # A list of a list style has its levels in another definition, that of the style.
            for depth, level in _levels(styled.get(value(kind, "{w}numStyleLink"), kind))
        }
        numbers = [element for element in found if element.tag == "{w}num"]
        self._own_levels = {
            (number.get("{w}numId", ""), depth): level
            for number in numbers
            for override in number.iterfind("{w}lvlOverride")
            for depth, level in _levels(override)
        }
        self._kinds = {number.get("{w}numId", ""): value(number, "{w}abstractNumId") for number in numbers}
        self._starts = {number.get("{w}numId", ""): dict(_starts(number)) for number in numbers}
        self._begun: set[str] = set()
        self._counts: dict[tuple[str, int], int] = {}

    def label(self, number: str, depth: int) -> str:
        """Count one more paragraph, and return its label: `-` for a bullet, empty for none."""
        kind = self._kinds.get(number)
        level = None if kind is None else self._level_of(number, kind, depth)
        if kind is None or level is None:
            return ""
        if number not in self._begun:
            self._begun.add(number)
            for restarted, start in self._starts.get(number, {}).items():
                self._counts[kind, restarted] = start - 1
        self._counts[kind, depth] = self._counts.get((kind, depth), level.start - 1) + 1
        for deeper in [place for place in self._counts if place[0] == kind and place[1] > depth]:
            inner = self._level_of(number, kind, deeper[1])
            if inner is None or inner.restart > depth:
                del self._counts[deeper]
        if level.form == "bullet":
            return "-"
        shown = partial(self._shown, number, kind, is_legal=level.is_legal)
        return _PLACE.sub(lambda place: shown(int(place.group(1)) - 1), level.text).strip()

    def _shown(self, number: str, kind: str, depth: int, *, is_legal: bool) -> str:
        level = self._level_of(number, kind, depth)
        if level is None:
            return ""
        return FORMS.get("" if is_legal else level.form, str)(self._counts.get((kind, depth), level.start))

    def _level_of(self, number: str, kind: str, depth: int) -> _Level | None:
        """Return a level of a list, which may have a format and a first number of its own."""
        level = self._own_levels.get((number, depth)) or self._levels.get((kind, depth))
        start = self._starts.get(number, {}).get(depth)
        return level if level is None or start is None else level._replace(start=start)


def value(element: Element, path: str) -> str:
    """Return the value of a descendant; empty where there is none."""
    found = element.find(path)
    return "" if found is None else found.get("{w}val", "")


def is_on(switch: Element | None) -> bool:
    """Return whether a property that is on or off is on: it is there, and its value does not say otherwise."""
    return switch is not None and switch.get("{w}val") not in _OFF


def _levels(element: Element) -> Iterator[tuple[int, _Level]]:
    """Yield the levels that a list defines, by their depth from 0."""
    for level in element.iterfind("{w}lvl"):
        depth = whole(level.get("{w}ilvl", ""))
        yield (
            depth,
            _Level(
                form=value(level, "{w}numFmt"),
                text=value(level, "{w}lvlText"),
                start=whole(value(level, "{w}start"), default=1),
                restart=whole(value(level, "{w}lvlRestart"), default=depth),
                is_legal=is_on(level.find("{w}isLgl")),
            ),
        )


def _starts(number: Element) -> Iterator[tuple[int, int]]:
    for override in number.iterfind("{w}lvlOverride"):
        start = value(override, "{w}startOverride")
        if start:
            yield whole(override.get("{w}ilvl", "")), whole(start)


def whole(digits: str, *, default: int = 0) -> int:
    """Return a number of at most six digits; the default for anything else."""
    return int(digits[:_MAX_DIGITS]) if digits.isdecimal() else default


def _letters(number: int) -> str:
    """Return a to z, then aa to zz, as Word counts."""
    rounds, place = divmod(max(number, 1) - 1, _LETTERS)
    return chr(ord("a") + place) * min(rounds + 1, _MAX_LETTER_ROUNDS)


FORMS: Mapping[str, Callable[[int], str]] = {
    "none": lambda _number: "",
    "decimalZero": lambda number: f"{number:02}",
    "lowerLetter": _letters,
    "upperLetter": lambda number: _letters(number).upper(),
    "lowerRoman": roman,
    "upperRoman": lambda number: roman(number).upper(),
}
"""Number formats by their names in Word; all others are decimal."""
