"""Query variants by rules and by relevance feedback.

statement      the query as the beginning of its answer
synonyms       synonyms of OpenThesaurus and WordNet
thesaurus      synonyms of a domain
compounds      German compounds, joined and split
abbreviations  abbreviations expanded, and long forms abbreviated
spelling       spelling correction
feedback       terms and vector by pseudo-relevance feedback
data           synonyms of OpenThesaurus and WordNet (licences: NOTICE)
"""

from freki.operators.rephrase.abbreviations import made_short, spelt_out
from freki.operators.rephrase.compounds import with_joined, with_split
from freki.operators.rephrase.feedback import feedback_terms, feedback_vector
from freki.operators.rephrase.spelling import corrected
from freki.operators.rephrase.statement import as_statement
from freki.operators.rephrase.synonyms import is_word, load_synonyms, synonyms_of, with_synonyms
from freki.operators.rephrase.thesaurus import Thesaurus, WrongThesaurus, parse_thesaurus

__all__ = [
    "Thesaurus",
    "WrongThesaurus",
    "as_statement",
    "corrected",
    "feedback_terms",
    "feedback_vector",
    "is_word",
    "load_synonyms",
    "made_short",
    "parse_thesaurus",
    "spelt_out",
    "synonyms_of",
    "with_joined",
    "with_split",
    "with_synonyms",
]
