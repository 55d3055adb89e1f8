"""Formatted terms: addresses, sections of laws, standards, amounts, dates, versions."""

import re
from collections.abc import Callable, Iterable, Mapping

_MONTHS = (
    ("januar", "jänner", "january", "jan"),
    ("februar", "feber", "february", "feb"),
    ("märz", "march", "mar"),
    ("april", "apr"),
    ("mai", "may"),
    ("juni", "june", "jun"),
    ("juli", "july", "jul"),
    ("august", "aug"),
    ("september", "sept", "sep"),
    ("oktober", "october", "okt", "oct"),
    ("november", "nov"),
    ("dezember", "december", "dez", "dec"),
)
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, start=1) for name in names}
_MONTH = "(?:" + "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_BODIES = "DIN|(?-i:EN)|ISO|IEC|VDE|VDI|RFC|IEEE|ÖNORM|TRGS|TRBS|DGUV|BSI|NIST|ASTM|ANSI|PEP"
_SIGNS = {"€": "eur", "$": "usd", "£": "gbp", "%": "prozent"}

# A lookahead makes numbers atomic: possessive quantifiers match too little in Python 3.11.2.
TERM = re.compile(
    rf"""
      \b(?:https?://(?:www\.)?|www\.)(?P<url>[^\s<>"'|\\^`{{}}]{{1,2000}})
    | (?<![\w.+-])(?P<mail>[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}})
    | (?:§§|\bparagraphen|\b(?:para|se)(?:graph|ction)s)\s*
        (?P<sections>\d+[a-z]?\b(?:\s*(?:,|und|bis|oder|and|to|or|[-–])\s*\d+[a-z]?\b)*)
    | (?P<section_heading>(?m:^)|(?<=[>\#]\ ))?(?:§|\bparagraph|\bsection)\s*
        (?P<section>\d+(?:[a-z]|(?-i:\ [a-h])(?=[\s,;:?!)]|$))?\b)
    | (?P<article_heading>(?m:^)|(?<=[>\#]\ ))?\bart(?:\.|ikels?|icles?)?\s*(?P<article>\d+[a-z]?\b)
    | \babs(?:\.|atz(?:es)?)?\s*(?P<clause>\d+[a-z]?\b(?![.,]\d))
    | (?m:^)\s{{0,8}}\((?P<numbered>\d{{1,2}}[a-z]?)\)\s
    | \b(?:nr\.?|nummer|no\.|ziff(?:er|\.))\s*(?P<item>\d+[a-z]?\b(?![.,]\d))
    | \b(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\.\s?(?P<year>\d{{4}})\b
    | \b(?P<iso_year>\d{{4}})-(?P<iso_month>\d\d)-(?P<iso_day>\d\d)(?:\b|T(?=\d\d))
    | \b(?:(?P<named_day>\d{{1,2}})(?:\\?\.)?\s+)?(?P<named_month>{_MONTH})\s+
        (?:(?P<english_day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+)?(?P<named_year>\d{{4}})\b
    | \b(?P<norm>(?:(?:{_BODIES})[ /-]{{0,2}}){{1,4}})(?P<norm_number>\d[\d.]*(?:-\d+)*)
    | (?<![\w/.,])(?P<slashed>\d{{1,6}}(?:/\d{{1,6}}){{1,3}})(?![\w/])
    | (?P<money>\d{{1,3}}(?:\ \d{{3}}){{1,5}}(?:,\d\d)?)(?=\s?(?:€|EUR\b|Euro\b))
    | (?<![\w.])v?(?=(?P<number>\d+(?:[.,'’]\d+)*))(?P=number)(?=\s?(?:€|EUR\b|Euro\b)|(?!-?[^\W\d]))
    | (?P<sign>[€$£%])
    | (?P<word>[^\W_]+(?:(?:\\?[-._'’])+[^\W_]+)*(?:(?<=\b[a-z])(?:\+\+|\#))?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Everything that gives terms; the group `word` matches plain words."""


def form_terms(found: re.Match[str]) -> Iterable[str]:
    """Return the terms of a match of TERM other than a word."""
    # The last matched group identifies the alternative.
    return _FORMS[found.lastgroup or ""](found)


def _sections(found: re.Match[str]) -> Iterable[str]:
    numbers = re.findall(r"\d+[a-z]?", found["sections"].lower())
    return [term for number in numbers for term in (f"§{number}", number)]


def headed(term: str) -> str:
    """Return the term of a section or article number in a heading."""
    return f"#{term}"


def _headed(term: str, heading: str | None) -> str:
    """Return the heading term of a number that begins a line, or a heading of a path; else nothing."""
    return "" if heading is None else headed(term)


def _section(found: re.Match[str]) -> Iterable[str]:
    number = found["section"].lower().replace(" ", "")
    return _headed(f"§{number}", found["section_heading"]), f"§{number}", number


def _article(found: re.Match[str]) -> Iterable[str]:
    number = found["article"].lower()
    return _headed(f"art{number}", found["article_heading"]), f"art{number}", number


def _clause(found: re.Match[str]) -> Iterable[str]:
    number = (found["clause"] or found["numbered"]).lower()
    return f"abs{number}", number


def _item(found: re.Match[str]) -> Iterable[str]:
    number = found["item"].lower()
    return f"nr{number}", number


def _slashed(found: re.Match[str]) -> Iterable[str]:
    return found["slashed"], *found["slashed"].split("/")


def _norm(found: re.Match[str]) -> Iterable[str]:
    bodies = re.findall(r"[^\W\d_]+", found["norm"].casefold())
    number = found["norm_number"].rstrip(".")
    parts = number.split("-")
    return [*bodies, *parts, *dict.fromkeys([*(body + parts[0] for body in bodies), bodies[-1] + number])]


def _sign(found: re.Match[str]) -> Iterable[str]:
    return (_SIGNS[found["sign"]],)


def _number(found: re.Match[str]) -> Iterable[str]:
    """Return the normal form of a number: no thousands separators, decimal point, no zero cents."""
    number = found["money"] or found["number"]
    parts, separators = re.findall(r"\d+", number), re.findall(r"\D", number)
    decimals = ""
    alone = len(separators) == 1 and (len(parts[1]) != _GROUP or parts[0].startswith("0"))
    if alone or len(set(separators)) > 1:
        decimals = parts.pop()
    if len(parts) > 1 and (len(parts[0]) > _GROUP or any(len(part) != _GROUP for part in parts[1:])):
        # A version, an IP address, or an invalid date.
        return dict.fromkeys([".".join(filter(None, [*parts, decimals])), ".".join(parts[:2])])
    integer = "".join(parts)
    return (integer if decimals in {"", "00"} else f"{integer}.{decimals}",)


# Digits between two separators of thousands.
_GROUP = 3


def _german_date(found: re.Match[str]) -> Iterable[str]:
    return _date(found["year"], found["month"], found["day"]) or (found[0].replace(" ", ""),)


def _iso_date(found: re.Match[str]) -> Iterable[str]:
    return _date(found["iso_year"], found["iso_month"], found["iso_day"]) or (found[0],)


def _named_date(found: re.Match[str]) -> Iterable[str]:
    month = _MONTH_NUMBERS[found["named_month"].rstrip(".").casefold()]
    day = found["named_day"] or found["english_day"] or 0
    return _date(found["named_year"], month, day) or (found["named_year"],)


def _date(year: int | str, month: int | str, day: int | str) -> tuple[str, ...]:
    """Return a day, its month and its year; day 0 gives no day; nothing where there is no such date."""
    year, month, day = int(year), int(month), int(day)
    if not (1 <= month <= len(_MONTHS) and 0 <= day <= 31):  # noqa: PLR2004 - days of a month
        return ()
    terms = (f"{year:04}-{month:02}", f"{year:04}")
    return (f"{year:04}-{month:02}-{day:02}", *terms) if day else terms


_FORMS: Mapping[str, Callable[[re.Match[str]], Iterable[str]]] = {
    "sections": _sections,
    "section": _section,
    "article": _article,
    "clause": _clause,
    "numbered": _clause,
    "item": _item,
    "slashed": _slashed,
    "norm_number": _norm,
    "money": _number,
    "number": _number,
    "sign": _sign,
    "year": _german_date,
    "iso_day": _iso_date,
    "named_year": _named_date,
}
