"""How texts cite sections of laws, mostly German ones."""

ARTICLES = r"(?i:art(?:\.|ikel[ns]?|icles?)?)"
SECTIONS = r"(?i:paragra(?:ph|f)(?:en|s)?|sec(?:\.|tions?))"
"""Patterns of the words before the numbers of articles and sections, in any case and inflection."""

FOLLOWING = r"ff\b|f\.\s+(?:\w*[A-ZÄÖÜ]\w*[A-ZÄÖÜ]|de[rs]\b)"
"""Pattern of "and the following" behind a number without a space: `§§ 48ff.`, `§ 5f. BauGB`.

`§ 5f BauGB` and `§ 5f.` at an end are § 5f.
"""
NO_BREAK = dict.fromkeys(map(ord, "\u00a0\u2007\u202f"), " ")
"""No-break spaces, for `str.translate`: word processors write them within `§ 3`, `Art. 5`, `DIN 18040` and `24 V`."""
