"""Validate document queries against their contract."""

import re
from collections.abc import Collection

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query.fields import (
    MAX_ID_CHARS,
    MAX_PRINCIPAL_CHARS,
    at_most,
    check_line,
    check_names,
    check_plain,
    check_reply_topic,
    check_tenant,
    check_within,
)
from freki.schemas import DocumentQuery, DocumentQueryKind

MAX_ITEMS = 100
"""Most documents, chunks or events of a report."""
MAX_DEADLINE_MS = 120_000
MAX_URI_CHARS = 2048
MAX_ATTRIBUTES = 32
MAX_VALUE_CHARS = 1024

_PLACE = re.compile(r"[0-9]{1,9}")
_CONDITIONS = ("prefix", "source", "language", "readers", "attributes", "deleted", "made_otherwise")


def validate_document_query(
    query: DocumentQuery, *, reply_topics: Collection[str] = (), verified: bool = False
) -> None:
    """Raise InvalidQuery for the first broken rule, with the field, the limit and the fix.

    reply_topics: topics that `reply_to` may name; null is always allowed; verified: whether principals come from a
    token and the topic of groups, which decide how many there are. No value is corrected.
    """
    check_line("query_id", query.query_id, MAX_ID_CHARS)
    check_tenant(query.tenant)
    if not verified:
        check_names("principals", query.principals)
    check_names("readers", query.readers)
    check_within("deadline_ms", query.deadline_ms, 1, MAX_DEADLINE_MS)
    check_within("limit", query.limit, 1, MAX_ITEMS)
    _document(query)
    _conditions(query)
    check_reply_topic(query.reply_to, reply_topics, otherwise="topic of reports")


def _document(query: DocumentQuery) -> None:
    if query.kind is DocumentQueryKind.LIST:
        if query.document_id is not None:
            raise InvalidQuery("document_id: LIST names no document; leave it out, or use SHOW")
        if query.cursor is not None:
            check_line("cursor", query.cursor, MAX_ID_CHARS)
        return
    if query.document_id is None:
        raise InvalidQuery(f"document_id: {query.kind} needs it; give the id that LIST shows")
    check_line("document_id", query.document_id, MAX_ID_CHARS)
    if query.cursor is not None and not _PLACE.fullmatch(query.cursor):
        raise InvalidQuery(
            f"cursor: {query.cursor[:MAX_ID_CHARS]!r} is none of {query.kind}; give `next` of the report before"
        )


def _conditions(query: DocumentQuery) -> None:
    given = [field for field in _CONDITIONS if getattr(query, field)]
    if given and query.kind is not DocumentQueryKind.LIST:
        raise InvalidQuery(f"{given[0]}: it is a condition of LIST; leave it out of {query.kind}")
    check_plain("prefix", query.prefix, MAX_ID_CHARS)
    check_plain("source", query.source, MAX_URI_CHARS)
    check_plain("language", query.language, MAX_PRINCIPAL_CHARS)
    for key, value in at_most("attributes", query.attributes, MAX_ATTRIBUTES).items():
        check_line("attributes", key, MAX_PRINCIPAL_CHARS)
        check_plain("attributes", value, MAX_VALUE_CHARS)
