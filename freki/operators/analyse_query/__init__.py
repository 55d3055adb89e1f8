"""Analysis of a query: its type, exact terms and searchable text.

reading       the combined analysis of the wording
wording       the type by rules
prototypes    the type by labelled examples, in vector space
exact         terms that must match literally
norms         sections of laws and articles, in any spelling
clauses       numbered clauses of contracts and manuals
places        places that a query may cite
divisions     annexes, parts and chapters of laws
compared      two things that a question compares
asked_term    the term or abbreviation whose meaning a question asks for
designations  standards, identifiers and numbers, which count as a whole
searchable    the searchable part of a long query
short_names   documents that a query names by their short names
data          the labelled examples
"""

from freki.operators.analyse_query.asked_term import asked_abbreviation, asked_term
from freki.operators.analyse_query.clauses import cited_clauses, clause_places
from freki.operators.analyse_query.compared import compared
from freki.operators.analyse_query.designations import absent_designations, designations
from freki.operators.analyse_query.divisions import cited_divisions, division_levels
from freki.operators.analyse_query.exact import exact_terms, folded, holds, phrases_of
from freki.operators.analyse_query.norms import (
    absent_norms,
    citation_levels,
    cited_norms,
    is_bare_citation,
)
from freki.operators.analyse_query.places import MAX_CITED, CitedPlace
from freki.operators.analyse_query.prototypes import Prototypes, example_wordings, fit_prototypes, type_by_prototypes
from freki.operators.analyse_query.reading import QueryReading, analyse_query, is_short, levels_of, says_nothing
from freki.operators.analyse_query.searchable import searchable_text
from freki.operators.analyse_query.short_names import names_document, words_of

__all__ = [
    "MAX_CITED",
    "CitedPlace",
    "Prototypes",
    "QueryReading",
    "absent_designations",
    "absent_norms",
    "analyse_query",
    "asked_abbreviation",
    "asked_term",
    "citation_levels",
    "cited_clauses",
    "cited_divisions",
    "cited_norms",
    "clause_places",
    "compared",
    "designations",
    "division_levels",
    "exact_terms",
    "example_wordings",
    "fit_prototypes",
    "folded",
    "holds",
    "is_bare_citation",
    "is_short",
    "levels_of",
    "names_document",
    "phrases_of",
    "says_nothing",
    "searchable_text",
    "type_by_prototypes",
    "words_of",
]
