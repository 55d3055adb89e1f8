"""How texts cite sections of laws, mostly German ones."""

ARTICLES = r"(?i:art(?:\.|ikel[ns]?|icles?)?)"
SECTIONS = r"(?i:paragra(?:ph|f)(?:en|s)?|sec(?:\.|tions?))"
"""Patterns of the words before the numbers of articles and sections, in any case and inflection."""

FOLLOWING = r"ff\b|f\.\s+(?:\w*[A-ZÄÖÜ]\w*[A-ZÄÖÜ]|de[rs]\b)"
"""Pattern of "and the following" behind a number without a space: `§§ 48ff.`, `§ 5f. BauGB`.

`§ 5f BauGB` and `§ 5f.` at an end are § 5f.
"""
_BEHIND = (
    r"(?=\s?(?:$|[,;:.?!)\d]|(?:Abs|Absatz|Satz|S|Nr|Nummer|Hs|Alt|Var|lit|Buchst|Buchstabe|i|ff?|und|oder|bis|des|der)\b"
    r"|\w{0,20}[A-ZÄÖÜ]\w{0,20}[A-ZÄÖÜ]))"
)
SPACED_LETTER = r"\s(?:[b-h]|a(?!\s(?!de[rs]\b)[a-z]))(?=[\s,;:?!)]|$)"
"""Pattern of the letter of a section behind a space, as in `§ 573 c BGB`; in `section 5 a person …` it is a word."""

ROMAN = rf"(?=[IVX])X{{0,2}}(?:IX|IV|V?I{{0,3}})\b{_BEHIND}"
"""Pattern of a clause as lawyers write it: II in `§ 535 II BGB`, I in `Art. 6 I 1 lit. f`. Not the I of `section 5 I`
before a verb."""

_LETTERS = r"(?:[a-z]{1,2}\b\)?)"
_OF_SENTENCES = r"H[Ss]|Halbs(?:atz|ätze)?|Alt(?:ernativen?)?|Var(?:ianten?)?|Spiegelstrich|Tiret"
_COUNTED = (
    r"(?i:(?:U|Unter)?Abs(?:[aä]tz(?:e[ns]?)?|\.)?|S[aä]tz(?:e[ns]?)?|Nrn?\.?|Nummern?|Ziff(?:ern?|\.)?)|S\.?"
    rf"|(?:{_OF_SENTENCES})\.?"
)
PART = (
    rf"(?:(?:{_COUNTED})\s?(?:\d{{1,3}}[a-z]{{0,2}}|[IVX]{{1,4}})\b(?:{SPACED_LETTER})?"
    rf"|(?i:(?:Doppelb|B)uchst(?:aben?|\.)?|lit\.?)(?:(?<=\.)|\s){_LETTERS}"
    rf"|\d{{1,2}}\.\s?(?:{_OF_SENTENCES}|(?:U|Unter)Abs(?:atz)?|Satz)\b\.?)"
)
"""Pattern of one part of a section, by a word: `Absätze 2`, `S. 1`, `Buchst. b`, `lit. f)`, `2. Halbsatz`."""
PARTS = (
    rf"(?:\s?\(\d{{1,3}}[a-z]?\)(?:{SPACED_LETTER})?|\s{ROMAN}(?:\s\d{{1,2}}\b|{SPACED_LETTER})?)?"
    rf"(?:,?\s{PART}){{0,6}}"
)
"""Pattern of the parts of a section behind its number."""

_DASHES = "-–—\u2212"
JOINT = rf"\s{{0,3}}(?:,|und|u\.|sowie|oder|bis|and|or|to|[{_DASHES}&+])\s{{0,3}}"
"""Pattern between numbers that are cited together: `Abs. 2 und 3`, `Nr. 2, 4`, `Ziffern 5.1 bis 5.3`."""
THROUGH = rf"\s*(?:bis|to|[{_DASHES}])[\s§]*"
"""Pattern between the first and the last of a range."""

_NAMES_OF_TEXTS = (
    r"gesetz|ordnung|satzung|richtlinie|verfassung|erlass|vertrag|vereinbarung|anweisung|handbuch|leitfaden|konzept"
    r"|protokoll|statut|act\b|code\b|regulation|agreement|manual"
)
_NAMES_OF_PARTS = (
    r"(?:u|unter)?abs(?:atz|ätzen?)?|s[aä]tze?n?|s|nrn?|nummern?|ziff(?:ern?)?|hs|halbs(?:atz)?|alt(?:ernative)?"
    r"|var(?:iante)?|buchst(?:aben?)?"
)
NO_QUANTITY = (
    r"(?![^\W_]|[.,:/]\d|\.\s?(?:Jan|Feb|Mär|Mai|Apr|Jun|Jul|Aug|Sep|Okt|Nov|Dez)|\s?[%‰€$£Ω°]"
    r"|\s(?:EUR|USD|GBP|CHF|DM|[kcm]?m|k?g|l|t|h|ha|min|mal|weitere[rn]?|days?|weeks?|months?|years?|hours?|minutes?)\b"
    rf"|\s(?!(?i:(?:{_NAMES_OF_PARTS})\b|[\w-]{{0,40}}(?:{_NAMES_OF_TEXTS})))[A-ZÄÖÜ][a-zäöüß]{{1,40}}\b)"
)
"""Pattern behind a number of a citation that counts nothing: not before a noun, as in `§ 5 und 3 Monate`."""

SHORT_NAME = r"(?=\w{0,20}[A-ZÄÖÜ]\w{0,20}[A-ZÄÖÜ])\w{2,40}"
"""Pattern of a word with two capitals, as short names of laws and other documents are: BGB, NetzDG, StVollzG."""

_PLAIN_SIGNS = {**dict.fromkeys("\u00a0\u2007\u202f", " "), **dict.fromkeys("\u2010\u2011", "-")}


def with_plain_signs(text: str) -> str:
    """Return a text of the same length with spaces and hyphens as keyboards have them.

    Word processors write no-break ones within `§ 3`, `DIN 18040`, `24 V` and `KX-200`.
    """
    # Many times as fast as `str.translate`, and most texts have few of them or none.
    if not text.isascii():
        for sign, plain in _PLAIN_SIGNS.items():
            text = text.replace(sign, plain)
    return text
