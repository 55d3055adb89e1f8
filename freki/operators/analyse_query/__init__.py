"""What a question asks for, and which of its words to search with.

reading     all that its words tell
wording     its type by rules
prototypes  its type by examples, in the space of its vector
exact       what of it has to be met as it is written
searchable  what of a long one is searched
data        the examples
"""

from freki.operators.analyse_query.exact import exact_terms, holds, phrases_of
from freki.operators.analyse_query.prototypes import Prototypes, example_wordings, fit_prototypes, type_by_prototypes
from freki.operators.analyse_query.reading import QueryReading, analyse_query, levels_of
from freki.operators.analyse_query.searchable import searchable_text

__all__ = [
    "Prototypes",
    "QueryReading",
    "analyse_query",
    "exact_terms",
    "example_wordings",
    "fit_prototypes",
    "holds",
    "levels_of",
    "phrases_of",
    "searchable_text",
    "type_by_prototypes",
]
