"""Terms of a query that must match literally."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from freki.schemas import ExactKind, ExactTerm
from freki.schemas.citations import ARTICLES, FOLLOWING, PARTS, SECTIONS, SPACED_LETTER, with_plain_signs
from freki.schemas.short_dates import DAY_OF_YEAR, SHORT_DATE

MAX_TERMS = 32

_MOST_READ = 20_000
_QUOTED = re.compile(
    r"„(?P<low>[^„“”\"\n]{2,200})[“”\"]|“(?P<high>[^“”\n]{2,200})”|»(?P<inward>[^«»\n]{2,200})«"
    r"|«(?P<outward>[^«»\n]{2,200})»|(?<!\w)\"(?P<straight>[^\"\n]{2,200})\"(?!\w)"
)
BODIES = "DIN|EN|ISO|IEC|VDE|VDI|RFC|IEEE|ÖNORM|TRGS|TRBS|DGUV|BSI|NIST|ASTM|ANSI|PEP"
"""Issuers of standards."""
_LETTER_UNITS = (
    "EUR|Euro|USD|GBP|km/h|m/s|[kcmnµ]?m[²³23]?|[kmµ]?g|[cm]?l|t|ha|[km]?V|m?A|[kMGT]?W|[kM]?Wh|m?Ah|[kMG]?Hz|[kM]?Pa|bar|"
    "Nm|dB|rpm|min|ms|[kMGT]i?B|[kMG]bit/s|Zoll|inch(?:es)?"
)
_SHAPES = re.compile(
    rf"""
      (?P<SECTION>(?:§§?|\b(?:{ARTICLES}|{SECTIONS})(?:(?<=\.)|\s))\s?
        \d{{1,6}}(?:{SPACED_LETTER}|[a-z]??(?={FOLLOWING})|[a-zA-Z]?\b){PARTS})
    | (?P<date>{SHORT_DATE}|{DAY_OF_YEAR})
    | (?P<STANDARD>\b(?:{BODIES})(?:[ /-](?:{BODIES})){{0,3}}[ -]{{1,2}}\d[\d.]{{0,8}}(?:-\d{{1,4}}){{0,4}}\b)
    | (?P<QUANTITY>(?<![\w.,/-])(?:\d{{1,3}}(?:\ \d{{3}}){{1,3}}(?:,\d{{1,2}})?|\d{{1,12}}(?:[.,]\d{{1,12}}){{0,4}})
        \s?(?:[%‰€$£Ω]|°\s?[CFK]?|(?:{_LETTER_UNITS})(?!\w)))
    | (?P<version>(?<![\w.,/-])(?:[A-Z]{{2,6}}\ )?\d{{1,6}}(?:\.\d{{1,2}}){{1,4}}(?![\w%]|[.,]\d))
    | (?P<word>(?<![^\W_])(?<![^\W_]-)(?:0x[\da-fA-F]{{2,40}}\b|[^\W\d_][\w.-]{{0,80}})|--[a-z][\w-]{{0,80}})
    """,
    re.VERBOSE,
)
_IDENTIFIER = re.compile(
    r"--[a-z].*"  # an option
    r"|0x[\da-fA-F]+"
    r"|[^\W\d_]{1,20}-?\d[\w-]*"  # KX-200
    r"|\w*[^\W_]_\w*[^\W_]"  # snake_case
    r"|[^\W\d_][\w-]+(?:\.[^\W\d_][\w-]+)+"  # os.path, a.yml
    r"|[a-z]+[A-Z]\w*|\w*[a-z]{2}[A-Z][a-z]\w*"  # camelCase, not GmbH
)
# What Markdown adds to the words: escapes as in `31\. Mai` and `max\_size`, and marks of emphasis and code at words.
_MARKUP = re.compile(r"\\(?=[!-/:-@\[-`{-~])|(?<![*`])[*`]+(?=[^\s*`])|(?<=[^\s*`])[*`]+")
# Lines end at hyphens: `Bundes-` and `Immissionsschutzgesetz` on the next.
_AT_HYPHEN = re.compile(r"(?<=\w)- (?=\w)")
_SPELLINGS = {"ä": "ae", "ö": "oe", "ü": "ue", "’": "'", "‐": "-", "‑": "-", "–": "-", "—": "-"} | dict.fromkeys(
    "\u00ad\u200b\u2060\ufeff", ""
)


def exact_terms(text: str) -> tuple[ExactTerm, ...]:
    """Return quotations, sections, standards, quantities and identifiers, each once, in this order of kinds.

    Quotations are enclosed in „…“, “…”, »…«, «…» or "…"; their content gives no other terms. At most 32 terms of the
    first 20,000 characters, each at most 200 characters long.
    """
    read = with_plain_signs(unicodedata.normalize("NFC", text[:_MOST_READ]))
    phrases = (found[found.lastgroup or 0].strip() for found in _QUOTED.finditer(read))
    terms = [ExactTerm(kind=ExactKind.PHRASE, text=phrase) for phrase in phrases if folded(phrase)]
    terms += sorted(_shaped(_QUOTED.sub(" ", read)), key=lambda term: _ORDER[term.kind])
    return tuple(dict.fromkeys(terms))[:MAX_TERMS]


def phrases_of(terms: Iterable[ExactTerm]) -> list[str]:
    """Return the quotations."""
    return [term.text for term in terms if term.kind is ExactKind.PHRASE]


def holds(texts: Sequence[str], *phrases: str) -> bool:
    """Return whether one of the texts contains one of the phrases as whole words.

    Ignores case, white space, hyphenation, kinds of dashes, the spelling of umlauts (`ä`, `ae`; `ß`, `ss`) and, as who
    quotes sees no markup, Markdown's escapes and marks of emphasis and code.
    """
    sought = _sought(phrases)
    return bool(phrases) and any(sought.search(folded(text)) for text in texts)


@lru_cache(maxsize=64)  # one text after another is searched
def _sought(phrases: Sequence[str]) -> re.Pattern[str]:
    """Return what finds phrases in a folded text."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(folded(phrase)) for phrase in phrases)})(?!\w)")


def folded(text: str) -> str:
    """Return a text as `holds` compares it."""
    spelt = unicodedata.normalize("NFKC", text).casefold()
    if not spelt.isascii():
        # Many times as fast as `str.translate`.
        for sign, usual in _SPELLINGS.items():
            spelt = spelt.replace(sign, usual)
    if any(sign in spelt for sign in "\\*`"):
        spelt = _MARKUP.sub("", spelt)
    joined = " ".join(spelt.split())
    return _AT_HYPHEN.sub("-", joined) if "- " in joined else joined


_ORDER = {kind: place for place, kind in enumerate(ExactKind)}


def _shaped(text: str) -> Iterator[ExactTerm]:
    for found in _SHAPES.finditer(text):
        kind, term = found.lastgroup or "", found[0].strip()
        if kind == "word":
            term = term.rstrip(".-")
            kind = ExactKind.IDENTIFIER if _IDENTIFIER.fullmatch(term) else ""
        elif kind == "version":
            kind = ExactKind.IDENTIFIER
        elif kind == "date":
            kind = ""
        if kind:
            yield ExactTerm(kind=ExactKind(kind), text=term)
