"""Validate questions about documents against their contract."""

import re
from collections.abc import Collection

from freki.operators.errors import InvalidQuery
from freki.schemas import DocumentQuery, DocumentQueryKind

MAX_ITEMS = 100
"""Most documents, chunks or events of a report."""
MAX_DEADLINE_MS = 120_000
MAX_ID_CHARS = 512
MAX_URI_CHARS = 2048
MAX_PRINCIPALS = 256
MAX_PRINCIPAL_CHARS = 128
MAX_ATTRIBUTES = 32
MAX_VALUE_CHARS = 1024

# Control characters, line separators, and surrogates, which UTF-8 cannot encode.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PLACE = re.compile(r"[0-9]{1,9}")
_CONDITIONS = ("prefix", "source", "language", "readers", "attributes", "deleted", "made_otherwise")


def validate_document_query(query: DocumentQuery, *, reply_topics: Collection[str] = ()) -> None:
    """Raise InvalidQuery for the first broken rule, with the field, the limit and the fix.

    reply_topics: topics that `reply_to` may name; null is always allowed. No value is corrected.
    """
    _line("query_id", query.query_id, MAX_ID_CHARS)
    _line("tenant", query.tenant, MAX_ID_CHARS)
    for field, names in (("principals", query.principals), ("readers", query.readers)):
        if len(names) > MAX_PRINCIPALS:
            raise InvalidQuery(f"{field}: {len(names)} are more than {MAX_PRINCIPALS}; give fewer")
        for name in names:
            _line(field, name, MAX_PRINCIPAL_CHARS)
    _within("deadline_ms", query.deadline_ms, MAX_DEADLINE_MS)
    _within("limit", query.limit, MAX_ITEMS)
    _document(query)
    _conditions(query)
    if query.reply_to is not None and query.reply_to not in reply_topics:
        raise InvalidQuery(
            f"reply_to: {query.reply_to[:MAX_ID_CHARS]!r} is not on the allow-list; leave it out to be answered on the"
            " topic of reports, or have the topic added to FREKI_RETRIEVAL__REPLY_TOPICS"
        )


def _document(query: DocumentQuery) -> None:
    if query.kind is DocumentQueryKind.LIST:
        if query.document_id is not None:
            raise InvalidQuery("document_id: LIST names no document; leave it out, or use SHOW")
        if query.cursor is not None:
            _line("cursor", query.cursor, MAX_ID_CHARS)
        return
    if query.document_id is None:
        raise InvalidQuery(f"document_id: {query.kind} needs it; give the id that LIST shows")
    _line("document_id", query.document_id, MAX_ID_CHARS)
    if query.cursor is not None and not _PLACE.fullmatch(query.cursor):
        raise InvalidQuery(
            f"cursor: {query.cursor[:MAX_ID_CHARS]!r} is none of {query.kind}; give `next` of the report before"
        )


def _conditions(query: DocumentQuery) -> None:
    given = [field for field in _CONDITIONS if getattr(query, field)]
    if given and query.kind is not DocumentQueryKind.LIST:
        raise InvalidQuery(f"{given[0]}: it is a condition of LIST; leave it out of {query.kind}")
    _text("prefix", query.prefix, MAX_ID_CHARS)
    _text("source", query.source, MAX_URI_CHARS)
    _text("language", query.language, MAX_PRINCIPAL_CHARS)
    if len(query.attributes) > MAX_ATTRIBUTES:
        raise InvalidQuery(f"attributes: {len(query.attributes)} are more than {MAX_ATTRIBUTES}; give fewer")
    for key, value in query.attributes.items():
        _line("attributes", key, MAX_PRINCIPAL_CHARS)
        _text("attributes", value, MAX_VALUE_CHARS)


def _within(field: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise InvalidQuery(f"{field}: {value} is outside 1..{most}; give such a value, or null for the default")


def _line(field: str, text: str, most: int) -> None:
    if not text.strip():
        raise InvalidQuery(f"{field}: it is empty; give it 1 to {most} characters")
    _text(field, text, most)


def _text(field: str, text: str, most: int) -> None:
    if len(text) > most:
        raise InvalidQuery(f"{field}: {len(text)} characters are more than {most}; shorten it")
    if found := _FORBIDDEN.search(text):
        raise InvalidQuery(f"{field}: control character U+{ord(found[0]):04X} at {found.start()}; remove it")
