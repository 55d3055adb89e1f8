"""The same question in other words, by rules and by what was read for it: pure, so that any search can use it.

statement      a question as the beginning of its answer
synonyms       words of the same meaning
compounds      German compounds, joined and split
abbreviations  short forms and what they stand for
spelling       words as the texts write them
feedback       what the best texts have in common
data           synonyms of OpenThesaurus and WordNet (licences: NOTICE)
"""

from freki.operators.rephrase.abbreviations import made_short, spelt_out
from freki.operators.rephrase.compounds import with_joined, with_split
from freki.operators.rephrase.feedback import feedback_terms, feedback_vector
from freki.operators.rephrase.spelling import corrected
from freki.operators.rephrase.statement import as_statement
from freki.operators.rephrase.synonyms import is_word, synonyms_of, with_synonyms

__all__ = [
    "as_statement",
    "corrected",
    "feedback_terms",
    "feedback_vector",
    "is_word",
    "made_short",
    "spelt_out",
    "synonyms_of",
    "with_joined",
    "with_split",
    "with_synonyms",
]
