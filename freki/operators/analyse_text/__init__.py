"""A text becomes the terms that BM25 counts; queries have those of chunks, and some more.

analyse    all terms of a text, in order
forms      what means something in its form: addresses, sections, standards, amounts, dates, versions
words      words: folded, stemmed, split
compounds  the parts of German compounds
data       stop words of the Snowball project; parts of German compounds
"""

from freki.operators.analyse_text.analyse import (
    ANALYSER,
    MAX_BYTES,
    PLAIN,
    TermPlace,
    analyse_text,
    plain_terms,
    query_terms,
    term_places,
)

__all__ = [
    "ANALYSER",
    "MAX_BYTES",
    "PLAIN",
    "TermPlace",
    "analyse_text",
    "plain_terms",
    "query_terms",
    "term_places",
]
