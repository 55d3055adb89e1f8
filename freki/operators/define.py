"""Detection of abbreviations that a text defines, and explanation of those that another text uses."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain

from freki.schemas import Definition

LINE_CHARS = 200
"""Maximum characters of a line of explanations."""
_LONG_CHARS = 100
_PIECE_CHARS = 3
"""Minimum length of a part of a compound: `Umwelt|verträglichkeits|prüfung`, but not `Inform|at|ik`."""

_UPPER = "A-ZÄÖÜ"
_SHORT = rf"[{_UPPER}][A-Za-zÄÖÜäöüß]*(?:[-/&][A-Za-zÄÖÜäöüß]+)*"
_QUOTED = "\"'„“”‚‘’«»`*_"
_NAMELY = (
    r"(?:im\s+Folgenden|im\s+Weiteren|nachfolgend|nachstehend|kurz|abgekürzt|Abkürzung|abk\.|hereinafter|in\s+short)"
)
_BRACKET = re.compile(rf"\s\((?i:{_NAMELY}(?:\s+auch)?(?:\s*:)?\s*)?[{_QUOTED}]*({_SHORT})\.?[{_QUOTED}]*[),;]")
_DASHED = re.compile(rf"\(([^()\n]{{5,{_LONG_CHARS}}}?)\s+[-–—]\s+({_SHORT})\)")
_EXPLAINED = re.compile(rf"(?<![\w\-/&])({_SHORT})\s+\(([^()]{{5,{_LONG_CHARS}}})\)")
_LISTED = re.compile(
    # The first tab parts, where no sign does: any of many would be tried with all that follow.
    rf"^[ \t]*(?:[-*•][ \t]+)?\W{{0,3}}({_SHORT})\W{{0,3}}(?:[ \t]*(?:[=:–—|]|-[ \t])|[ ]*\t)[ \t]*(\S[^\n]*)",
    re.MULTILINE,
)
_BORDER = re.compile(r"[.;:!?()\[\]{}<>|=\t]|\n\s*\n")
_LONG_END = re.compile(r"[.;,(|\t]|\s[-–—]\s")
_ROMAN = re.compile(r"[IVXLCDM]+")
_VOWEL = re.compile(r"[aeiouyäöü]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION_WORD = re.compile(
    r"""
    an?|and|as|at|by|for|from|in|into|of|on|or|over|per|the|to|with
    |als|am|auf|aus|beim?|das|de[mnrs]|die|durch|eine?[mnrs]?|für|gegen|im|mit|nach|oder|ohne|über|um|und|unter|vo[mn]
    |vor|zu[mr]?|zwischen
    """,
    re.IGNORECASE | re.VERBOSE,
)


def find_definitions(text: str) -> tuple[Definition, ...]:
    """Return the abbreviations that a text defines, in reading order; of several definitions the first counts.

    Forms: `Long Form (LF)`, `Long Form (im Folgenden: LF)`, `LF (Long Form)`, `(Long Form - LF)`, and lines
    `LF = Long Form` or `LF: Long Form`. Every word of the long form except stop words begins with a letter of the
    short form, in order; each further capital begins a part of a compound, and small letters follow in it.
    Source: Schwartz and Hearst, A simple algorithm for identifying abbreviation definitions in biomedical text, PSB
    2003, which requires this of the first word only: with German compounds that matches too much.
    """
    found: dict[str, tuple[int, str]] = {}
    for place, short, long in sorted(chain(_before(text), _dashed(text), _after(text), _listed(text))):
        found.setdefault(short, (place, " ".join(long.split())))
    return tuple(Definition(short=short, long=long) for short, (_, long) in found.items())


def used(definitions: Sequence[Definition], text: str) -> list[Definition]:
    """Return the definitions whose short form the text uses as a word or part of a hyphenated word, in order of use."""
    words = set(_WORD.findall(text))
    places = (
        (found.start(), definition)
        for definition in definitions
        if words.issuperset(_WORD.findall(definition.short)) and (found := _whole(definition.short).search(text))
    )
    return [definition for _, definition in sorted(places, key=lambda each: (each[0], each[1].short))]


def explain(definitions: Sequence[Definition], text: str) -> str:
    """Return a line such as `UVP = Umweltverträglichkeitsprüfung; AN = Auftragnehmer`; empty where none is needed.

    Includes the definitions that the text uses, in that order, whose long form it does not contain, up to 200
    characters.
    """
    held = " ".join(text.split()).casefold()
    line = ""
    for definition in used(definitions, text):
        longer = f"{line}; " * bool(line) + f"{definition.short} = {definition.long}"
        if definition.long.casefold() not in held and len(longer) <= LINE_CHARS:
            line = longer
    return line


Found = Iterator[tuple[int, str, str]]


def _before(text: str) -> Found:
    """Yield position, short and long form of each `Long Form (LF)`."""
    for match in _BRACKET.finditer(text):
        short = match[1]
        if _is_short(short) and (
            long := _long_before(text[max(0, match.start() - 2 * _LONG_CHARS) : match.start()], short)
        ):
            yield match.start(), short, long


def _dashed(text: str) -> Found:
    for match in _DASHED.finditer(text):
        if _is_short(match[2]) and (long := _long_before(match[1], match[2])):
            yield match.start(), match[2], long


def _after(text: str) -> Found:
    for match in _EXPLAINED.finditer(text):
        yield from _whole_form(match.start(), match[1], match[2])


def _listed(text: str) -> Found:
    for match in _LISTED.finditer(text):
        yield from _whole_form(match.start(), match[1], _LONG_END.split(match[2], maxsplit=1)[0])


def _whole_form(place: int, short: str, long: str) -> Found:
    long = long.strip(_QUOTED + " ")
    if _is_short(short) and _is_long(short, long) and _initials(short, long.split()) is not None:
        yield place, short, long


def _is_short(short: str) -> bool:
    """Return whether it is an abbreviation: two capitals, or three or four letters without a vowel, such as `Kfz`."""
    capitals = sum(letter.isupper() for letter in short)
    unspeakable = 3 <= len(short) <= 4 and not _VOWEL.search(short)  # noqa: PLR2004
    return 2 <= len(short) <= 12 and (capitals > 1 or unspeakable) and not _ROMAN.fullmatch(short)  # noqa: PLR2004


def _is_long(short: str, long: str) -> bool:
    """Return whether it is a long form, not another code, and not a word that merely continues the short form."""
    fits = len(short) + _PIECE_CHARS <= len(long) <= _LONG_CHARS
    return fits and not long.isupper() and not long.casefold().startswith(short.casefold())


def _long_before(before: str, short: str) -> str | None:
    """Return the end of a text that the short form stands for; the more of its letters begin a word, the better."""
    tail = _BORDER.split(before)[-1]
    starts = [match.start() for match in re.finditer(r"\S+", tail)][::-1]
    best: tuple[int, str] | None = None
    for start in starts[: min(len(short) + 5, 2 * len(short))]:
        long = tail[start:].strip(_QUOTED + " \n")
        if not _is_long(short, " ".join(long.split())):
            continue
        initials = _initials(short, long.split())
        if initials is not None and (best is None or initials > best[0]):
            best = initials, long
    return best and best[1]


def _initials(short: str, words: Sequence[str]) -> int | None:
    """Count the letters that begin a word, at best; None where the short form does not stand for the words."""
    letters = "".join(letter for letter in short if letter.isalpha())
    parts = [
        (part, nth > 0 or bool(_FUNCTION_WORD.fullmatch(part)))
        for word in words
        for nth, part in enumerate(word.strip(_QUOTED + ",").split("-"))
        if part
    ]
    if not parts or parts[0][1]:
        return None

    @cache
    def most(at: int, word: int) -> int | None:
        """Return the most letters from `at` on that begin one of the words from `word` on."""
        if word == len(parts):
            return 0 if at == len(letters) else None
        part, optional = parts[word]
        counts = [most(at, word + 1)] if optional else []
        for end in range(at + 1, len(letters) + 1):
            if not _fits(letters[at:end], part):
                continue
            rest = most(end, word + 1)
            counts.append(None if rest is None else rest + 1)
        return max((count for count in counts if count is not None), default=None)

    return most(0, 0)


def _fits(letters: str, word: str) -> bool:
    """Return whether letters stand for one word: the first begins it, capitals after it begin parts of a compound."""
    folded = word.casefold()
    if not folded.startswith(letters[0].casefold()):
        return False
    end, piece, last = 1, 0, max(len(folded) - _PIECE_CHARS + 1, 0)
    for letter in letters[1:]:
        # The first place is the best: all that can follow a later one can follow it.
        if letter.isupper():
            spot = piece = folded.find(letter.lower(), max(end, piece + _PIECE_CHARS), last)
        else:
            spot = folded.find(letter, end)
        if spot < 0:
            return False
        end = spot + 1
    return True


@lru_cache(maxsize=4096)
def _whole(short: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(short)}(?!\w)")
