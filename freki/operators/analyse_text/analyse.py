"""The analyser: all terms of a text."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from freki.operators.analyse_text.forms import TERM, form_terms, headed
from freki.operators.analyse_text.words import word_terms
from freki.schemas.citations import ARTICLES, FOLLOWING, ROMAN, SECTIONS, with_plain_signs
from freki.schemas.numerals import value_of_roman
from freki.schemas.short_dates import with_full_years

ANALYSER = "freki-terms@6"
"""Name and version of the analyser, stored with an index: chunks and queries must use the same."""

PLAIN = "plain-terms@1"
"""Name and version of `plain_terms`."""

MAX_BYTES = 65_535
"""Maximum size of the terms of a text: the limit of a text field in Milvus."""

# Longer numbers are data, not terms.
_LONGEST = 128
_ADDRESSES = ("url", "mail")
_WORDS = re.compile(r"[^\W_]+(?:[-.'’][^\W_]+)*")
_NUMBERED = re.compile(r"(?:§|art)\d+[a-z]?")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
# NFKC would join the numbers of notes and sentences, powers and fractions with the number or word at which they stand.
# Powers stay at units and letters, as in `m²`, `5km²` and `R²`, and in what many write for CO₂.
_APART = r"(?<![^\W_])"
_RAISED = re.compile(
    r"[⁰¹²³⁴-⁹¼-¾⅐-⅞](?<!(?<!\d)[¼-¾⅐-⅞])"
    rf"(?<!{_APART}[A-Za-z][²³])(?<!{_APART}[a-zµ][a-z][²³])(?<!{_APART}CO[²³])(?<!\dm[²³])(?<!\d[a-zµ]m[²³])"
)
_FOLLOWED = re.compile(
    rf"(?:§|\b(?:{ARTICLES}|{SECTIONS}))\s{{0,3}}\d{{1,6}}[a-z]??"
    r"(?:\s{0,3}(?:,|und|bis|oder|and|to|or|[-–])\s{0,3}\d{1,6}[a-z]??){0,20}?"
    rf"(?={FOLLOWING})"
)
# What the analyser leaves as words: an index has the terms of its version, but a query may have more.
_PARAGRAF = re.compile(r"\b(?i:paragraf)(?=(?i:en|s)?\s{0,3}\d)")
_SEC = re.compile(r"\b(?i:sec)\.(?=\s{0,3}\d)")
_ARTICLES = re.compile(
    r"\b(?i:art\.|artikeln?|articles)\s{0,3}\d{1,6}[a-z]?\b"
    r"(?:\s{0,3}(?:,|und|bis|oder|and|to|or|[-–])\s{0,3}\d{1,6}[a-z]?\b){0,20}"
)
_CLAUSE = re.compile(rf"((?:§|\b(?:{ARTICLES}|{SECTIONS}))\s{{0,3}}\d{{1,6}}(?:\s?[a-z])?)\s({ROMAN})")
_NUMBER = re.compile(r"\d+[a-z]?")
_JOINED = re.compile(r"\b\d{1,6}[a-z]?ff\b")

NOTHING: frozenset[str] = frozenset()


def protected_words(text: str) -> frozenset[str]:
    """Return the words of a text, one a line, as `analyse_text` takes them; lines that begin with `#` are comments."""
    lines = (_folded(line).strip().casefold() for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


class TermPlace(NamedTuple):
    """A span of a text, and its terms."""

    start: int
    end: int
    """Half-open span in code points."""
    terms: str
    """Terms separated by spaces."""


def analyse_text(text: str, *, language: str, protected: frozenset[str] = NOTHING) -> str:
    """Return the terms of a text in its order, separated by single spaces, at most 65,535 bytes of UTF-8.

    Stop words of the language are dropped unless written as an acronym. Each other word gives its folded form, marked
    by `=`, and its stem; a German compound also the stems of its parts: `Mietverträge` is `=mietvertrage mietvertrag
    miet vertrag`. The marked word rewards equal spelling, and matches despite a wrongly detected language.
    Texts without a certain language (`und`) are stemmed as German and as English, and lose the stop words of both.
    Formatted terms are never dropped or stemmed:
    - `§ 535`, `§§ 535, 536`, `Paragraph 535`: `§535` and `535`; `Art. 5`, `Art 5`: `art5` and `5`; where they begin a
      line or a heading of a path, as in `BGB > § 535 Inhalt`: also `#§535`, `#art5`;
    - `Abs. 2`, `Absatz 2`, `(2)` at the beginning of a line: `abs2` and `2`; `Nr. 4`: `nr4` and `4`;
    - `2016/679`: the whole and its parts;
    - `https://www.example.org/a`, `info@example.org`: the whole without scheme and `www.`, and its words;
    - `DIN EN 18040-1`: each body, `18040`, and joined: `din18040`, `en18040`, `en18040-1`;
    - `50.000,00 EUR`, `€ 50,000`, `50 000 Euro`: `50000` and `eur`;
    - `1.2.2024`, `2024-02-01`, `2024-02-01T10:15`, `1. Februar 2024`: `2024-02-01`, `2024-02` and `2024`;
    - `3.11.7`: also `3.11`; `snake_case`, `camelCase`, `E-Mail`, `os.path`: the whole and its parts;
    - `1Mietverträge`, `Frist2`, as of numbers of sentences and notes: the whole and the word; raised digits, as in
      `§ 12¹`, `Frist²` and `10³`, give no terms, unless they are powers of units: `m²` is `m2`;
    - days of dates and words that Markdown escapes with backslashes: as without them.

    protected: words, as `protected_words` reads them, that are neither dropped, stemmed nor split.
    Source: stemmers and stop words of the Snowball project, snowballstem.org.
    """
    found = TERM.finditer(_folded(text))
    terms = " ".join(filter(None, (_terms(each, language, protected) for each in found)))
    return _within_limit(terms)


def term_places(text: str, *, language: str) -> Iterator[TermPlace]:
    """Yield the spans of a text with their terms, in order.

    The terms are those of `analyse_text` if the text is in NFKC.
    """
    for found in TERM.finditer(_told_apart(text)):
        if terms := _terms(found, language):
            yield TermPlace(found.start(), found.end(), terms)


def query_terms(text: str, *, language: str, protected: frozenset[str] = NOTHING) -> str:
    """Return the terms of a query: those of the text, and for `§ 535` or `Art. 5` also the heading term, twice.

    The section itself then ranks before others that refer to it. `Paragraf 5`, `Sec. 5` and `Artikeln 8 und 9` also
    give the terms of `§ 5`, `§ 5` and `Art. 8, Art. 9`, `§ 535 II` those of `§ 535 Abs. 2`, and `01.02.24` those of
    `01.02.2024`. `§§ 48ff.` is read as `§§ 48 ff.`, and as the word `48ff` of documents that write it so.
    """
    spaced = _FOLLOWED.sub(r"\g<0> ", text)
    terms = analyse_text(spaced, language=language, protected=protected).split()
    cited = _usually_cited(spaced)
    if cited != spaced:
        usual = dict.fromkeys(analyse_text(cited, language=language, protected=protected).split())
        written = set(terms)
        terms += [term for term in usual if term not in written]
    terms += dict.fromkeys(_JOINED.findall(text.lower())) if spaced != text else ()
    headings = dict.fromkeys(headed(term) for term in terms if _NUMBERED.fullmatch(term))
    return _within_limit(" ".join([*(term for term in terms if term not in headings), *headings, *headings]))


def _usually_cited(text: str) -> str:
    """Return a query with `Paragraf 5`, `Sec. 5`, `Artikeln 8 und 9` as `paragraph 5`, `section 5`, `art. 8 art. 9`.

    Clauses in Roman numerals and years of two digits are written in full.
    """
    text = _CLAUSE.sub(lambda found: f"{found[1]} Abs. {value_of_roman(found[2])}", with_full_years(text))
    text = _SEC.sub("section", _PARAGRAF.sub("paragraph", text))
    return _ARTICLES.sub(lambda found: " ".join(f"art. {number}" for number in _NUMBER.findall(found[0])), text)


def plain_terms(text: str, *, language: str) -> str:  # noqa: ARG001 - stands where `analyse_text` does
    """Return the lower-case words of a text, separated by white space: the baseline for an analyser."""
    return _within_limit(" ".join(text.lower().split()))


def _folded(text: str) -> str:
    if text.isascii():
        return text
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", _told_apart(unicodedata.normalize("NFC", text))))


def _told_apart(text: str) -> str:
    """Return a text of the same length without raised numbers, and with one kind of hyphen and of blank."""
    return with_plain_signs(_RAISED.sub(" ", text))


def _within_limit(terms: str) -> str:
    encoded = terms.encode(errors="ignore")
    if len(encoded) > MAX_BYTES:
        end = encoded.rfind(b" ", 0, MAX_BYTES + 1)
        encoded = encoded[: end if end >= 0 else MAX_BYTES]
    return encoded.decode(errors="ignore")


def _terms(found: re.Match[str], language: str, protected: frozenset[str] = NOTHING) -> str:
    if found.lastgroup == "word":
        word = found[0].replace("\\", "")
        if protected and word.casefold() in protected:
            return f"={word.casefold()}"
        return word_terms(word, language)
    if found.lastgroup in _ADDRESSES:
        return _address_terms(found[found.lastgroup].rstrip(".,;:!?)]/").casefold(), language)
    month = found["named_month"]
    name = word_terms(month.rstrip("."), language) if month else ""
    forms = (term for term in form_terms(found) if 0 < len(term) <= _LONGEST)
    return " ".join(filter(None, [name, *forms]))


def _address_terms(address: str, language: str) -> str:
    words = (word_terms(word, language) for word in _WORDS.findall(address))
    return " ".join(dict.fromkeys(filter(None, [address[:_LONGEST], *words])))
