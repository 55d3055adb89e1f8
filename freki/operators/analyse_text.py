"""The terms of a text, as BM25 counts them: the same for chunks and queries."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files

import Stemmer

ANALYSER = "freki-terms@1"
"""Name and version, stored with an index: chunks and queries must be analysed alike."""

MAX_BYTES = 65_535
"""Milvus' limit of a text field."""

_STEMMERS = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
_STOPPED = ("de", "en", "es", "fr", "it")
# A text whose language is not certain may be asked for in either.
_LIKELY = ("de", "en")

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
_SAME = {"€": "eur", "euro": "eur", "euros": "eur", "$": "usd", "dollar": "usd", "dollars": "usd", "£": "gbp"} | {
    "%": "prozent",
    "percent": "prozent",
}

_TERM = re.compile(
    rf"""
      (?:§§|\bparagraphen|\b(?:para|se)(?:graph|ction)s)\s*
        (?P<sections>\d+[a-z]?\b(?:\s*(?:,|und|bis|oder|and|to|or|[-–])\s*\d+[a-z]?\b)*)
    | (?:§|\bparagraph|\bsection)\s*(?P<section>\d+[a-z]?\b)
    | \bart(?:\.|ikels?|icle)\s*(?P<article>\d+[a-z]?\b)
    | \b(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\.\s?(?P<year>\d{{4}})\b
    | \b(?P<iso_year>\d{{4}})-(?P<iso_month>\d\d)-(?P<iso_day>\d\d)\b
    | \b(?:(?P<named_day>\d{{1,2}})\.?\s+)?(?P<named_month>{_MONTH})\s+
        (?:(?P<english_day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+)?(?P<named_year>\d{{4}})\b
    | \b(?P<norm>(?:(?:{_BODIES})[ /-]{{0,2}})+)(?P<norm_number>\d[\d.]*(?:-\d+)*)
    | (?P<money>\d{{1,3}}(?:\ \d{{3}})+(?:,\d\d)?)(?=\s?(?:€|EUR\b|Euro\b))
    | (?<![\w.])v?(?P<number>\d++(?:[.,'’]\d++)*+)(?=\s?(?:€|EUR\b|Euro\b)|(?!-?[^\W\d]))
    | (?P<sign>[€$£%])
    | (?P<word>[^\W_]+(?:[-._'’]+[^\W_]+)*(?:(?<=\b[a-z])(?:\+\+|\#))?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_ACCENTS = re.compile("[\u0300-\u0307\u0309-\u036f]")
_HUMPS = re.compile(r"(?<=[^\W\d_A-ZÄÖÜ])(?=[A-ZÄÖÜ])|(?<=[A-ZÄÖÜ])(?=[A-ZÄÖÜ][^\W\d_A-ZÄÖÜ])")
_JOINTS = re.compile(r"[-._'’]+")


def analyse_text(text: str, *, language: str) -> str:
    """Return the terms of a text in its order, separated by single spaces, at most 65,535 bytes of UTF-8.

    Words are folded (NFKC, case, accents), stop words of the language dropped unless written as an acronym, the rest
    stemmed. Texts without a certain language (`und`) are stemmed as German and as English, and keep all words.
    What carries meaning in its form is never dropped nor stemmed:
    - `§ 535`, `§§ 535, 536`, `Paragraph 535`: `§535` and `535`; `Art. 5`: `art5` and `5`;
    - `DIN EN 18040-1`: each body, `18040`, and joined: `din18040`, `en18040`, `en18040-1`;
    - `50.000,00 EUR`, `€ 50,000`, `50 000 Euro`: `50000` and `eur`;
    - `1.2.2024`, `2024-02-01`, `1. Februar 2024`: `2024-02-01`, `2024-02` and `2024`;
    - `3.11.7`: also `3.11`; `snake_case`, `camelCase`, `E-Mail`, `os.path`: the whole and its parts.
    Source: stemmers and stop words of the Snowball project, snowballstem.org.
    """
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    terms = " ".join(filter(None, _terms(folded, language)))
    encoded = terms.encode()
    return terms if len(encoded) <= MAX_BYTES else encoded[: encoded.rindex(b" ", 0, MAX_BYTES + 1)].decode()


def _terms(text: str, language: str) -> Iterator[str]:
    for found in _TERM.finditer(text):
        # The last group that matched tells which alternative did.
        kind = found.lastgroup
        if kind == "word":
            yield _word(found[0], language)
        elif kind == "named_year":
            yield _word(found["named_month"].rstrip("."), language)
            yield " ".join(_named_date(found))
        elif kind is not None:
            yield " ".join(_SPECIAL[kind](found))


def _sections(found: re.Match[str]) -> Iterable[str]:
    numbers = re.findall(r"\d+[a-z]?", found["sections"].lower())
    return [term for number in numbers for term in (f"§{number}", number)]


def _section(found: re.Match[str]) -> Iterable[str]:
    number = found["section"].lower()
    return f"§{number}", number


def _article(found: re.Match[str]) -> Iterable[str]:
    number = found["article"].lower()
    return f"art{number}", number


def _norm(found: re.Match[str]) -> Iterable[str]:
    bodies = re.findall(r"[^\W\d_]+", found["norm"].casefold())
    number = found["norm_number"].rstrip(".")
    parts = number.split("-")
    return [*bodies, *parts, *dict.fromkeys([*(body + parts[0] for body in bodies), bodies[-1] + number])]


def _sign(found: re.Match[str]) -> Iterable[str]:
    return (_SAME[found["sign"]],)


def _number(found: re.Match[str]) -> Iterable[str]:
    """Give one writing of a number: thousands without separators, decimals after a point, no empty cents."""
    number = found["money"] or found["number"]
    parts, separators = re.findall(r"\d+", number), re.findall(r"\D", number)
    decimals = ""
    alone = len(separators) == 1 and (len(parts[1]) != _GROUP or parts[0].startswith("0"))
    if alone or len(set(separators)) > 1:
        decimals = parts.pop()
    if len(parts) > 1 and (len(parts[0]) > _GROUP or any(len(part) != _GROUP for part in parts[1:])):
        # A version, an address, or a date that is none.
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
    """Give a day, its month and its year; day 0 gives no day; nothing where there is no such date."""
    year, month, day = int(year), int(month), int(day)
    if not (1 <= month <= len(_MONTHS) and 0 <= day <= 31):  # noqa: PLR2004 - days of a month
        return ()
    terms = (f"{year:04}-{month:02}", f"{year:04}")
    return (f"{year:04}-{month:02}-{day:02}", *terms) if day else terms


_SPECIAL: Mapping[str, Callable[[re.Match[str]], Iterable[str]]] = {
    "sections": _sections,
    "section": _section,
    "article": _article,
    "norm_number": _norm,
    "money": _number,
    "number": _number,
    "sign": _sign,
    "year": _german_date,
    "iso_day": _iso_date,
}


@lru_cache(maxsize=1 << 16)
def _word(word: str, language: str) -> str:
    """Give the terms of a word, or of words that hyphens, points, underscores or capitals join."""
    folded = word.casefold().replace("’", "'")
    if folded in _stop_words(language) and not (word.isupper() and len(word) > 1):
        return ""
    bare = re.sub("['’]s$", "", word)
    parts = [part for joint in _JOINTS.split(bare) for part in _HUMPS.split(joint)]
    if any(len(part) == 1 and part.isupper() for part in parts):
        # GmbH and PhD are words.
        parts = _JOINTS.split(bare)
    if len(parts) == 1:
        return " ".join(_stems(bare.casefold(), language))
    joined = bare.casefold().replace("’", "'").replace("-", "")
    whole = _stems(joined, language) if joined.isalnum() else [joined]
    return " ".join(filter(None, [*whole, *(_word(part, language) for part in parts)]))


def _stems(word: str, language: str) -> list[str]:
    if word in _SAME:
        return [_SAME[word]]
    if not word.isalpha():
        return [word]
    languages = (language,) if language in _STEMMERS else _LIKELY
    return list(dict.fromkeys(_stem(word, each) for each in languages))


def _stem(word: str, language: str) -> str:
    if language in _LIKELY and not word.isascii():
        # Both know no accents but German umlauts.
        word = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", word)))
    return _unaccented(_stemmer(language).stemWord(word))


def _unaccented(word: str) -> str:
    if word.isascii():
        return word
    letters = (letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", "".join(letters))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(_STEMMERS[language])


@cache
def _stop_words(language: str) -> frozenset[str]:
    if language not in _STOPPED:
        return frozenset()
    lines = files(__package__).joinpath("words", f"stop_{language}.txt").read_text("utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))
