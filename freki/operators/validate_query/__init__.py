"""Whether queries keep their contracts.

context_query    context queries
conditions       the filter language
document_query   document queries
fields           checks of single fields, for both
"""

from freki.operators.validate_query.conditions import parse_condition
from freki.operators.validate_query.context_query import MAX_READ, validate_query
from freki.operators.validate_query.document_query import MAX_DEADLINE_MS, MAX_ITEMS, validate_document_query

__all__ = ["MAX_DEADLINE_MS", "MAX_ITEMS", "MAX_READ", "parse_condition", "validate_document_query", "validate_query"]
