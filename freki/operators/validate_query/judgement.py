"""Validate judgements against their contract."""

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query.fields import MAX_ID_CHARS, check_line, check_tenant
from freki.schemas import Judgement

MAX_QUERY_ID_CHARS = 2_000
"""Longest id of a judged query: it may be the text of the query."""


def validate_judgement(judgement: Judgement) -> None:
    """Raise InvalidQuery for the first broken rule, with the field, the limit and the fix.

    Workers keep judgements in memory, and anybody who may query may judge: so ids are bounded. The question may have
    any length, since only its beginning is kept.
    """
    check_tenant(judgement.tenant)
    check_line("judge", judgement.judge, MAX_ID_CHARS)
    check_line("document_id", judgement.document_id, MAX_ID_CHARS)
    if judgement.chunk_id is not None:
        check_line("chunk_id", judgement.chunk_id, MAX_ID_CHARS)
    if (length := len(judgement.query_id)) > MAX_QUERY_ID_CHARS:
        raise InvalidQuery(f"query_id: {length} characters are more than {MAX_QUERY_ID_CHARS}; shorten it")
    if not judgement.question.strip():
        raise InvalidQuery("question: it is empty; give the text of the query")
