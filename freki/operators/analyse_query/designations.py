"""Designations of a query: standards, identifiers and numbers, each of which counts only as a whole."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from freki.operators.analyse_query.exact import BODIES
from freki.operators.analyse_query.norms import cited_norms
from freki.schemas import ExactKind, ExactTerm
from freki.schemas.citations import with_plain_signs

_DESIGNATING = frozenset({ExactKind.STANDARD, ExactKind.IDENTIFIER})
_WORDLIKE = re.compile(
    # Persons of any gender: texts may have Mitarbeiter for MitarbeiterInnen and Mitarbeiter_innen.
    r"\w+[a-zäöüß](?:In(?:nen[a-zäöüß]*)?|_innen[a-zäöüß]*)|[A-ZÄÖÜ]\w+er_in"
    # Abbreviations have long forms: ArbSchG, BetrSichV, BayStrWG.
    r"|[A-ZÄÖÜ][^\W\d_]*[a-zäöüß][A-ZÄÖÜ]{1,3}"
)
# Texts may have CO2-Emissionen for CO2-Ausstoß.
_COMPOUNDED = re.compile(r"(?<=\d)(?:-[^\W\d_]{3,})+$")
# IBANs, and telephone numbers, which begin with 0 or a country's code.
_IBAN = r"[A-Z]{2}\d{2}(?:\s?[\dA-Z]{4}){3,7}(?:\s?[\dA-Z]{1,3})?"
_NO_DATE = r"(?!(?:\d{1,2}[/-])?\d{1,2}[/-][12]\d{3}(?!\d))"
_TELEPHONE = (
    rf"{_NO_DATE}(?=(?:[\s/()+–-]{{0,3}}\d){{7}})(?:\+\d{{1,3}}\s?(?:\(0\)\s?)?|\(?0)\d{{1,12}}\)?"
    r"(?:[\s/–-]{1,3}\d{2,12}){0,6}(?:\s?[–-]\s?\d)?"
)
_GROUPED = re.compile(rf"(?<![\w.,/-])(?:(?P<iban>{_IBAN})|{_TELEPHONE})(?![\w/-]|[.,]\d)")
# File numbers: of German courts, 1 BvR 16/13, VIII ZR 8/20, L 7 AS 100/19, 5 C 12.19; of the Court of Justice,
# C-131/12; of offices, 602-4-2020/11, and whatever has digits after a word such as Aktenzeichen.
_REGISTERS = (
    "(?!EUR|USD|GBP|CHF)[A-Z]{1,3}|(?i:bv[a-z]|[ak]?zr|[ak]?zb|a[bz][rn]|st[rb])|ARs|EnVR|EnZR|Lw[A-Z]{2}|AnwZ|NotZ|RiZ|GrS|PatAnwZ"
    "|[DCKLGJ]s|KLs|N?Ns|NBs|Qs|Ws|Ss|OWi|StVK|R?Rs|RVs|Ca|Sa|Ta|TaBV|Ga|BVGa|SaGa|Wx|Kart|Verg|Ko|KSt"
)
_COURT_FILE = (
    rf"(?:(?:[LSB]\s)?\d{{1,3}}[a-z]?|[IVX]{{1,5}})\s(?:{_REGISTERS})(?:\s?\([A-Z][A-Za-z]{{0,6}}\))?"
    r"\s\d{1,5}/\d{2}(?:\d{2})?|\d{1,2}\s(?:A|B|BN|C|CN|P|PB|VR|WB|WD|WDB|WNB)\s\d{1,4}\.\d{2}|[CFT]-\d{1,4}/\d{2}"
)
_OFFICE_FILE = (
    r"\d{1,8}(?:(?=[\d/]*-)(?=[\d-]*/)(?:[-/]\d{1,8}){3,6}|(?:\s[-–]\s\d{1,8}){2,4}/\d{1,8})"
    r"|[IVX]{1,5}\s[A-Z]\s\d{1,2}\s?[-–]\s?[A-Z]{1,3}\s\d{4}(?:[a-z]|(?:/\d{1,5}){1,3}(?::\d{3})?)?"
)
_PLATE = r"[A-ZÄÖÜ]{1,3}-(?!VO|RL|SG|GG)[A-ZÄÖÜ]{1,2}\s?(?!(?:19|20)\d\d)[1-9]\d{0,3}[EH]?"
_FILE = re.compile(rf"(?<![\w.,/-])(?:{_COURT_FILE}|{_OFFICE_FILE}|{_PLATE})(?![\w/-]|[.,]\d)")
_LABELLED_FILE = re.compile(
    r"\b(?i:Az|Aktenz(?:eichen)?|Aktennummer|Akte|Geschäftsz(?:eichen)?|Gesch\.?-?Z|GZ|Kassenzeichen|Ordnungsmerkmal"
    r"|file (?:no|number)|case (?:no|number))"
    r"(?:\.?:\s?|\.?\s)(?=\S{0,40}?\d\S{0,40}?\d\S{0,40}?\d)(\w{1,20}(?:[./-]\w{1,20}){0,8})"
)
_TAIL = 8
"""Last digits of a telephone number that are the same with and without the country's code."""
_NUMBER = re.compile(
    r"(?<![\w/.,:@-])(?:"
    # Not of dates such as 2024/03/01, which texts have in other notations.
    r"(?!\d{4}(?:/\d{1,2}){2}\b|(?:\d{1,2}/){2}\d{4}\b)(?=[\d/]{0,24}\d{3})(?:\d{1,6}/){1,3}\d{1,6}(?![\w/-]|[.,]\d)"
    # Before a word it counts something, as in `500 Stunden`; shorter ones may be spelt as words.
    r"|(?<![€$£§]\s)\d{3,12}(?![\w/:-]|[.,]\d|\.\s|\s?[^\W\d_%‰€$£Ω°]|\s?[%‰€$£Ω°])"
    r")"
)
# V-2020/17, 4A-33-B7, 100.234.5.
_JOINED = re.compile(r"(?<![\w/.,:@+-])\w{1,24}(?:[-/.]\w{1,24}){1,8}(?![\w/-]|[.,@]\d)")
_JOINT = re.compile(r"[-/.]")
_LONG_WORD = re.compile(r"[^\W\d_]{5}")
_AMOUNT = re.compile(r"\d{1,3}(?:\.\d{3})+|\d+(?:\.\d{1,2}){0,4}|\d{1,2}\.\d{1,2}\.\d{4}")
"""Numbers with thousands marked, decimals, days and versions."""
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}")
_HYPHENATED = re.compile(r"(?<![\w/.,:@-])\d{1,8}(?:-\d{1,8}){1,5}(?![\w/-]|[.,]\d)")
_DATED = re.compile(r"\d{4}-\d{1,2}(?:-\d{1,2})?|\d{1,2}-\d{1,2}-(?:\d{2}|\d{4})")
"""Days, months and seasons, which texts have in other notations."""
_LEAST_DIGITS = 6
"""Of numbers that people type with and without the signs between their parts."""
_SIGN = r"[^\w\s]"
_PIECES = re.compile(r"\d+|[^\W\d_]+")
_BODIES = frozenset(body.casefold() for body in BODIES.split("|"))
_OTHER_BODIES = rf"(?:(?:{'|'.join(sorted(_BODIES))})[\W_]{{1,3}}){{0,3}}"
_GROUP = 3
_CAMEL = re.compile(r"[^\W\d_]*[a-z][A-ZÄÖÜ][^\W\d_]*$")
# Texts may have E-Rechnung for eRechnungen, and max_size for maxSize.
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-ZÄÖÜ])")
# Names of programs are not inflected: --dry-run is not in `dry running`, nor max_size in max_sizeof.
_CODE = re.compile(r"^--|_|[^\W\d_]\.[^\W\d_]")
_LETTERS = re.compile(r"(?=.*[A-ZÄÖÜ][^\W\d_]{0,40}[A-ZÄÖÜ])[^\W\d_]+(?:\s[^\W\d_]+)*")
_PLURAL = re.compile(r"(?<=[^\W\d_]{5})(?:en|n|s)$")


def designations(text: str, exact: Sequence[ExactTerm]) -> tuple[str, ...]:
    """Return what a question names by a number or an identifier, each once: `PEP 8`, `2016/679`, `1 BvR 16/13`, `1997`.

    exact: its exact terms. Norms, dates, quantities and numbers of one or two digits are none; of quotations only file
    numbers, codes as `V-2020/17`, and telephone and account numbers count.
    """
    plain = with_plain_signs(unicodedata.normalize("NFC", text))
    files, rest = _cut(plain, _FILE)
    labelled, rest = _cut(rest, _LABELLED_FILE)
    grouped, rest = _cut(rest, _GROUPED)
    codes, rest = _cut(rest, _JOINED, _is_code)
    wholes = [*files, *labelled, *grouped, *codes]
    named = [
        _COMPOUNDED.sub("", term.text)
        for term in exact
        if term.kind in _DESIGNATING
        and not _WORDLIKE.fullmatch(term.text)
        and not any(term.text in each for each in wholes)
    ]
    return tuple(dict.fromkeys([*named, *wholes, *_numbers(rest, exact)]))


def absent_designations(named: Sequence[str], texts: Iterable[str]) -> tuple[str, ...]:
    """Return those of the designations that no text has as a whole, whatever signs stand between its parts.

    `ISO 27001` is in `ISO/IEC 27001:2013`, `PEP 8` in `pep-0008.rst`, `4711` in `4.711` and `47150031` in
    `4715-0031`; `PEP 8` is not in `PEP 257`, nor `2016/679` in `2016`.
    """
    if not named:
        return ()
    plain = [unicodedata.normalize("NFKC", text).casefold() for text in texts]
    return tuple(each for each in named if not any(map(_sought(each).is_in, plain)))


def _cut(text: str, pattern: re.Pattern[str], counts: Callable[[str], bool] = bool) -> tuple[list[str], str]:
    """Return what a pattern finds that counts, of its last group if it has one, and the text without it."""
    found = []

    def take(match: re.Match[str]) -> str:
        each = match[match.lastindex or 0]
        if not counts(each):
            return match[0]
        found.append(each)
        return " ; "

    return found, pattern.sub(take, text)


def _numbers(rest: str, exact: Sequence[ExactTerm]) -> Iterator[str]:
    for known in (*(norms.text for norms in cited_norms(rest)), *(term.text for term in exact)):
        rest = rest.replace(known, " ; ")
    for found in _HYPHENATED.finditer(rest):
        if _is_part_number(found[0]):
            yield found[0]
    yield from (found[0] for found in _NUMBER.finditer(rest))


def _is_code(joined: str) -> bool:
    """Return whether numbers and letters with signs between them are a code, V-2020/17, 0200.5720.

    No words, alternatives as 24V/5A, spans, days, decimals and numbers with marked thousands.
    """
    parts = _JOINT.split(joined)
    if all(map(str.isdecimal, parts)):
        is_decimal = len(parts) == 2 and not joined.startswith("0")  # noqa: PLR2004 - one point
        amounts = map(_AMOUNT.fullmatch, re.split("[-/]", joined))
        return "." in joined and _digits(joined) >= _LEAST_DIGITS and not is_decimal and not all(amounts)
    numbered = [part for part in parts if any(map(str.isdecimal, part))]
    is_alternative = not all(map(str.isdecimal, numbered)) and not {"-", "."} & set(joined)
    is_word = joined.islower() or _LONG_WORD.search(joined)
    return len(numbered) > 1 and not is_alternative and not is_word and not _INSTANT.match(joined)


def _is_part_number(number: str) -> bool:
    """Return whether numbers with hyphens are that of a part or file, 4711-0815: no date and no rising span."""
    first, second, *others = number.split("-")
    is_span = not others and not second.startswith("0") and int(first) < int(second)
    return _digits(number) >= _LEAST_DIGITS and not is_span and not _DATED.fullmatch(number)


def _digits(text: str) -> int:
    return sum(map(str.isdecimal, text))


class _Sought(NamedTuple):
    literal: str
    """What each text with the designation has, perhaps nothing: it is found ten times as fast as the pattern."""
    pattern: re.Pattern[str]

    def is_in(self, folded: str) -> bool:
        return self.literal in folded and self.pattern.search(folded) is not None


@lru_cache(maxsize=256)  # one text after another is searched
def _sought(designation: str) -> _Sought:
    """Return what finds a designation in a folded text."""
    if found := _GROUPED.fullmatch(designation):
        digits = "".join(filter(str.isalnum, designation)).casefold()
        return _Sought("", re.compile(r"\W{0,3}".join(digits if found["iban"] else digits[-_TAIL:])))
    plain = unicodedata.normalize("NFKC", designation)
    pieces = _PIECES.findall((_HUMPS.sub(" ", _PLURAL.sub("", plain)) if _CAMEL.match(plain) else plain).casefold())
    named = next((place for place, piece in enumerate(pieces) if piece not in _BODIES), 0)
    parts = pieces[named:]
    is_long = _digits(designation) >= _LEAST_DIGITS
    between = rf"(?:\s[-–]\s|{_SIGN})?" if is_long else _SIGN
    joints = [
        "",
        *(between if one.isdecimal() and other.isdecimal() else r"[\W_]{0,3}" for one, other in pairwise(parts)),
    ]
    written = "".join(joint + _written(part) for joint, part in zip(joints, parts, strict=True))
    literal = max(map(_literal, parts), key=len)
    if is_long and plain.isdecimal():
        # 4715-0031 for 47150031, and no part of a longer one.
        written = rf"(?:{written}|(?<!\d{_SIGN}){between.join(plain)}(?!{_SIGN}\d))"
    if named:
        # Texts name one of several bodies, or others beside it.
        written = rf"(?:{'|'.join(pieces[:named])})[\W_]{{0,3}}{_OTHER_BODIES}{written}"
    before = r"(?<!\d)(?<!\d[.,])" if pieces[0].isdecimal() else r"(?<![^\W_])"
    return _Sought(literal, re.compile(before + written + _after(designation, pieces[-1])))


def _after(designation: str, last: str) -> str:
    if last.isdecimal():
        return r"(?!\d)"
    if _CODE.search(designation):
        return r"(?![^\W_])"
    # Of abbreviations only the genitive and the plural: BGB is not in BGBl.
    return r"(?:e?s)?(?![^\W_])" if _LETTERS.fullmatch(designation) else ""


def _literal(piece: str) -> str:
    """Return what all that `_written` finds has in common: all of a word, and of a number without signs in between."""
    if not piece.isdecimal():
        return piece
    bare = piece.lstrip("0") or "0"
    return bare if len(bare) <= _GROUP else ""


def _written(piece: str) -> str:
    """Return what finds a part of a designation: a number with any zeros before it and signs between its thousands."""
    if not piece.isdecimal():
        return "v(?:ersion)?" if piece == "v" else re.escape(piece)
    bare = piece.lstrip("0") or "0"
    head = len(bare) % _GROUP
    groups = [bare[:head], *(bare[place : place + _GROUP] for place in range(head, len(bare), _GROUP))]
    return "0*" + "[.,'’]?".join(filter(None, groups))
