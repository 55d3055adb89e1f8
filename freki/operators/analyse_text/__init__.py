"""A text becomes the terms that BM25 counts, the same for chunks and queries.

analyse    all terms of a text, in order
forms      what means something in its form: sections, standards, amounts, dates, versions
words      words: folded, stemmed, split
compounds  the parts of German compounds
data       stop words of the Snowball project; parts of German compounds
"""

from freki.operators.analyse_text.analyse import ANALYSER, MAX_BYTES, analyse_text

__all__ = ["ANALYSER", "MAX_BYTES", "analyse_text"]
