"""Validate context queries against their contract."""

import math
import re
from collections.abc import Collection

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query.conditions import parse_condition
from freki.operators.validate_query.fields import (
    MAX_ID_CHARS,
    at_most,
    check_line,
    check_names,
    check_reply_topic,
    check_tenant,
    check_within,
)
from freki.schemas import (
    ATTRIBUTE_PREFIX,
    FILTER_FIELDS,
    ChunkKind,
    ChunkLevel,
    ContextQuery,
    Filter,
    FilterOperator,
    RequestKind,
    Widening,
)
from freki.schemas.conditions import NO_PREFIX, Comparator, Condition, comparisons_of
from freki.schemas.names import FORBIDDEN_IN_LINE, FORBIDDEN_IN_TEXT, LANGUAGE_CODE, LARGEST_INTEGER
from freki.schemas.query_options import QUERY_OPTIONS, QueryOption

MAX_FILTERS = 32
MAX_FILTER_VALUES = 256
MAX_FILTER_CHARS = 1024
MAX_ATTRIBUTE_KEY_CHARS = 128
MAX_FLOORS = 16
MAX_READ = 20

_SEVERAL = (FilterOperator.IN, FilterOperator.NOT_IN)
_LEVELS = (ChunkLevel.DOCUMENT, ChunkLevel.SECTION, ChunkLevel.PARAGRAPH)
_NOT_FOR: dict[RequestKind, tuple[str, ...]] = {
    RequestKind.RETRIEVE: (),
    RequestKind.KEYWORD_SEARCH: ("alpha", "lexical_pivot"),
    RequestKind.SEMANTIC_SEARCH: ("alpha", "lexical_pivot"),
    RequestKind.CHUNK_READ: ("alpha", "lexical_pivot", "widen", "expect"),
}
_LEFT_OUT: tuple[object, ...] = (None, ())
_CHUNK_ID = re.compile("[0-9a-f]{32}")


def validate_query(
    query: ContextQuery,
    *,
    max_characters: int = 1_000_000,
    reply_topics: Collection[str] = (),
    encrypts_names: bool = False,
    verified: bool = False,
) -> None:
    """Raise InvalidQuery for the first broken rule, with the field, the limit and the fix.

    reply_topics: topics that `reply_to` may name; null is always allowed; encrypts_names: whether the store
    compares names whole only; verified: whether principals come from a token and the topic of groups, which decide how
    many there are. No value is corrected.
    """
    check_line("query_id", query.query_id, MAX_ID_CHARS)
    check_tenant(query.tenant)
    _text(query.text, max_characters, may_be_empty=query.kind is RequestKind.CHUNK_READ)
    _kind(query)
    if not verified:
        check_names("principals", query.principals)
    _options(query)
    for condition in at_most("filters", query.filters, MAX_FILTERS):
        _filter(condition)
    where = None if query.where is None else parse_condition(query.where)
    if encrypts_names:
        _whole_names(query.filters, where)
    for floor in at_most("at_least", query.at_least, MAX_FLOORS):
        check_line("at_least.document_id", floor.document_id, MAX_ID_CHARS)
        check_within("at_least.version", floor.version, 1, LARGEST_INTEGER)
    for document_id in at_most("expect", query.expect, MAX_FLOORS):
        check_line("expect", document_id, MAX_ID_CHARS)
    check_reply_topic(query.reply_to, reply_topics, otherwise="contexts topic")


def _whole_names(filters: Collection[Filter], where: Condition | None) -> None:
    if any(each.field == "name" and each.operator is FilterOperator.PREFIX for each in filters):
        raise InvalidQuery(f"filters: {NO_PREFIX}")
    compared = [] if where is None else comparisons_of(where)
    if any(each.field == "name" and each.comparator is not Comparator.EQUAL for each in compared):
        raise InvalidQuery(f"where: {NO_PREFIX}")


def _kind(query: ContextQuery) -> None:
    named = [field for field in ("chunk_ids", "document_ids") if getattr(query, field)]
    if query.kind is not RequestKind.CHUNK_READ and named:
        raise InvalidQuery(f"{named[0]}: {query.kind} reads nothing by name; use CHUNK_READ, or filter on document_id")
    if query.kind is RequestKind.CHUNK_READ and not named:
        raise InvalidQuery("chunk_ids: CHUNK_READ needs some, or document_ids; give those of hits")
    for field in _NOT_FOR[query.kind]:
        if getattr(query, field) not in _LEFT_OUT:
            raise InvalidQuery(f"{field}: it means nothing to {query.kind}; leave it out, or use RETRIEVE")
    for chunk_id in at_most("chunk_ids", query.chunk_ids, MAX_READ):
        if not _CHUNK_ID.fullmatch(chunk_id):
            raise InvalidQuery(
                f"chunk_ids: {chunk_id[:MAX_ID_CHARS]!r} is no id of a chunk; give 32 hexadecimal digits, as hits do"
            )
    for document_id in at_most("document_ids", query.document_ids, MAX_READ):
        check_line("document_ids", document_id, MAX_ID_CHARS)


def _text(text: str, max_characters: int, *, may_be_empty: bool) -> None:
    if not text.strip() and not may_be_empty:
        raise InvalidQuery(f"text: it is empty; ask something in 1 to {max_characters} characters")
    if len(text) > max_characters:
        raise InvalidQuery(f"text: {len(text)} characters are more than {max_characters}; shorten it")
    if found := FORBIDDEN_IN_TEXT.search(text):
        raise InvalidQuery(f"text: a NUL or lone surrogate stands at character {found.start()}; remove it")


def _options(query: ContextQuery) -> None:
    for option in QUERY_OPTIONS.values():
        if option.in_query and option.value_type in (int, float):
            _number(option, getattr(query, option.name))
    if query.target_model is not None:
        check_line("target_model", query.target_model, MAX_ID_CHARS)
    at_most("widen", query.widen or (), len(Widening))
    levels = at_most("levels", query.levels or (), len(_LEVELS))
    if query.levels is not None and (not levels or any(level not in _LEVELS for level in levels)):
        raise InvalidQuery(f"levels: give some of {_LEVELS}, or null to have the type of query decide")
    if query.language is not None and not LANGUAGE_CODE.fullmatch(query.language):
        raise InvalidQuery(
            f"language: {query.language[:16]!r} is no ISO 639-1 code such as 'de'; leave it out to detect it"
        )


def _number(option: QueryOption, value: float | None) -> None:
    if option.bounds is not None:
        check_within(option.name, value, *option.bounds)
    elif value is not None and not math.isfinite(value):
        raise InvalidQuery(f"{option.name}: {value} is no number; give one, or null for the service's setting")


def _filter(condition: Filter) -> None:
    field = condition.field
    if field.startswith(ATTRIBUTE_PREFIX):
        check_line("filters.field", field.removeprefix(ATTRIBUTE_PREFIX), MAX_ATTRIBUTE_KEY_CHARS)
    elif field not in FILTER_FIELDS:
        fields = f"{', '.join(FILTER_FIELDS)} or {ATTRIBUTE_PREFIX}KEY"
        raise InvalidQuery(f"filters.field: {field[:MAX_ID_CHARS]!r} cannot be filtered on; use {fields}")
    most = MAX_FILTER_VALUES if condition.operator in _SEVERAL else 1
    if not 1 <= len(condition.values) <= most:
        raise InvalidQuery(
            f"filters.values: {condition.operator} of {field!r} has {len(condition.values)} values; give 1 to {most}"
        )
    for value in condition.values:
        if len(value) > MAX_FILTER_CHARS:
            raise InvalidQuery(f"filters.values: {len(value)} characters are more than {MAX_FILTER_CHARS}; shorten it")
        if found := FORBIDDEN_IN_LINE.search(value):
            raise InvalidQuery(f"filters.values: control character U+{ord(found[0]):04X} in {field!r}; remove it")
        if field == "kind" and condition.operator is not FilterOperator.PREFIX and value not in set(ChunkKind):
            raise InvalidQuery(f"filters.values: {value!r} is no kind of chunk; use {', '.join(ChunkKind)}")
