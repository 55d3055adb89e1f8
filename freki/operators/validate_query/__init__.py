"""Whether queries and judgements keep their contracts.

context_query    context queries
conditions       the filter language
document_query   document queries
judgement        judgements of answers
fields           checks of single fields, for all of them
"""

from freki.operators.validate_query.conditions import parse_condition
from freki.operators.validate_query.context_query import MAX_READ, validate_query
from freki.operators.validate_query.document_query import MAX_DEADLINE_MS, MAX_ITEMS, validate_document_query
from freki.operators.validate_query.judgement import MAX_QUERY_ID_CHARS, validate_judgement

__all__ = [
    "MAX_DEADLINE_MS",
    "MAX_ITEMS",
    "MAX_QUERY_ID_CHARS",
    "MAX_READ",
    "parse_condition",
    "validate_document_query",
    "validate_judgement",
    "validate_query",
]
