"""Text analysis for BM25: the terms of chunks, and of queries, which have additional ones.

analyse    all terms of a text, in order
forms      formatted terms: addresses, sections, standards, amounts, dates, versions
words      words: folded, stemmed, split
compounds  splitting of German compounds
data       stop words of the Snowball project; parts of German compounds
"""

from freki.operators.analyse_text.analyse import (
    ANALYSER,
    MAX_BYTES,
    PLAIN,
    TermPlace,
    analyse_text,
    plain_terms,
    protected_words,
    query_terms,
    term_places,
)
from freki.operators.analyse_text.words import compound_terms

__all__ = [
    "ANALYSER",
    "MAX_BYTES",
    "PLAIN",
    "TermPlace",
    "analyse_text",
    "compound_terms",
    "plain_terms",
    "protected_words",
    "query_terms",
    "term_places",
]
