"""All terms of a text."""

import re
import unicodedata

from freki.operators.analyse_text.forms import TERM, form_terms
from freki.operators.analyse_text.words import word_terms

ANALYSER = "freki-terms@2"
"""Name and version, stored with an index: chunks and queries must be analysed alike."""

MAX_BYTES = 65_535
"""Milvus' limit of a text field."""

# Longer numbers are data.
_LONGEST = 128
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")


def analyse_text(text: str, *, language: str) -> str:
    """Return the terms of a text in its order, separated by single spaces, at most 65,535 bytes of UTF-8.

    Stop words of the language are dropped unless written as an acronym. Each other word gives itself, folded and marked
    by `=`, and its stem; a German compound also the stems of its parts: `Mietverträge` is `=mietvertrage mietvertrag
    miet vertrag`. The marked word rewards what is written alike, and still finds where the language was mistaken.
    Texts without a certain language (`und`) are stemmed as German and as English, and lose the stop words of both.
    What means something in its form is never dropped nor stemmed:
    - `§ 535`, `§§ 535, 536`, `Paragraph 535`: `§535` and `535`; `Art. 5`: `art5` and `5`;
    - `DIN EN 18040-1`: each body, `18040`, and joined: `din18040`, `en18040`, `en18040-1`;
    - `50.000,00 EUR`, `€ 50,000`, `50 000 Euro`: `50000` and `eur`;
    - `1.2.2024`, `2024-02-01`, `1. Februar 2024`: `2024-02-01`, `2024-02` and `2024`;
    - `3.11.7`: also `3.11`; `snake_case`, `camelCase`, `E-Mail`, `os.path`: the whole and its parts.
    Source: stemmers and stop words of the Snowball project, snowballstem.org.
    """
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    terms = " ".join(filter(None, (_terms(found, language) for found in TERM.finditer(folded))))
    encoded = terms.encode()
    return terms if len(encoded) <= MAX_BYTES else encoded[: encoded.rindex(b" ", 0, MAX_BYTES + 1)].decode()


def _terms(found: re.Match[str], language: str) -> str:
    if found.lastgroup == "word":
        return word_terms(found[0], language)
    month = found["named_month"]
    name = word_terms(month.rstrip("."), language) if month else ""
    forms = (term for term in form_terms(found) if len(term) <= _LONGEST)
    return " ".join(filter(None, [name, *forms]))
