from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import validate_query
from freki.schemas import (
    ChunkId,
    ContextQuery,
    DocumentId,
    Filter,
    FilterOperator,
    QueryId,
    RequestKind,
    TenantId,
    Timestamp,
    VersionFloor,
    Widening,
)
from freki.schemas.conditions import NO_PREFIX

MANY = tuple(f"v{i}" for i in range(257))
READ = {"kind": RequestKind.CHUNK_READ, "text": ""}
CHUNK = ChunkId("0123456789abcdef" * 2)


def query(**fields: Any) -> ContextQuery:
    return replace(
        ContextQuery(query_id=QueryId("q1"), tenant=TenantId("acme"), text="Wer haftet?", asked_at=Timestamp(0)),
        **fields,
    )


def where(field: str, *values: str, operator: FilterOperator = FilterOperator.EQ) -> dict[str, Any]:
    return {"filters": (Filter(field=field, operator=operator, values=values),)}


@pytest.mark.parametrize(
    "valid",
    [
        query(),
        query(text="x" * 1_000_000),
        query(text="Zeile 1\nZeile 2\t?"),
        query(top_k=200, alpha=0.0, mmr_lambda=1.0, rerank_candidates=0, neighbours=0, min_score=-3.5, deadline_ms=1),
        query(levels=(0, 1, 2), language="de"),
        query(principals=("peter", "grp:Vertrieb")),
        query(**where("kind", "CODE", "TABLE", operator=FilterOperator.IN)),
        query(**where("attributes.Jahr", "2024")),
        query(**where("attributes.leer", "")),
        query(**where("name", "Handbuch", operator=FilterOperator.PREFIX)),
        query(at_least=(VersionFloor(document_id="d", version=1),)),  # type: ignore[arg-type]
        query(reply_to="answers.mine"),
        query(kind=RequestKind.KEYWORD_SEARCH),
        query(kind=RequestKind.SEMANTIC_SEARCH, reranker=None),
        query(**READ, chunk_ids=(CHUNK,) * 20),
        query(**READ, document_ids=(DocumentId("a/b"),)),
    ],
)
def test_what_keeps_the_contract_passes(valid: ContextQuery) -> None:
    validate_query(valid, reply_topics=["answers.mine"])


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (query(query_id=""), "query_id"),
        (query(query_id="a\x00"), "query_id"),
        (query(query_id="q" * 513), "query_id"),
        (query(tenant=" "), "tenant"),
        (query(tenant="a/b"), "tenant"),
        (query(text=" \n"), "text"),
        (query(text="x" * 1_000_001), "text"),
        (query(text="a\x00b"), "text"),
        (query(text="a\udc00b"), "text"),
        (query(kind=RequestKind.KEYWORD_SEARCH, text=""), "text"),
        (query(kind=RequestKind.KEYWORD_SEARCH, alpha=0.5), "alpha"),
        (query(kind=RequestKind.SEMANTIC_SEARCH, alpha=0.0), "alpha"),
        (query(**READ, chunk_ids=(CHUNK,), widen=(Widening.SYNONYMS,)), "widen"),
        (query(**READ, chunk_ids=(CHUNK,), expect=(DocumentId("a"),)), "expect"),
        (query(kind=RequestKind.SEMANTIC_SEARCH, chunk_ids=(CHUNK,)), "chunk_ids"),
        (query(document_ids=(DocumentId("a"),)), "document_ids"),
        (query(**READ), "chunk_ids"),
        (query(**READ, chunk_ids=(CHUNK,) * 21), "chunk_ids"),
        (query(**READ, chunk_ids=(CHUNK.upper(),)), "chunk_ids"),
        (query(**READ, document_ids=(DocumentId(""),)), "document_ids"),
        (query(principals=("",)), "principals"),
        (query(principals=("p" * 129,)), "principals"),
        (query(principals=MANY), "principals"),
        (query(top_k=0), "top_k"),
        (query(top_k=201), "top_k"),
        (query(candidates=0), "candidates"),
        (query(deadline_ms=0), "deadline_ms"),
        (query(alpha=-0.1), "alpha"),
        (query(alpha=1.1), "alpha"),
        (query(alpha=float("nan")), "alpha"),
        (query(rrf_k=0), "rrf_k"),
        (query(rerank_candidates=-1), "rerank_candidates"),
        (query(mmr_lambda=2.0), "mmr_lambda"),
        (query(neighbours=-1), "neighbours"),
        (query(context_tokens=-5), "context_tokens"),
        (query(min_score=float("inf")), "min_score"),
        (query(levels=()), "levels"),
        (query(levels=(3,)), "levels"),
        (query(levels=(1,) * 4), "levels"),
        (query(widen=(Widening.SYNONYMS,) * (len(Widening) + 1)), "widen"),
        (query(language="german"), "language"),
        (query(**where("secret", "x")), "filters.field"),
        (query(**where("attributes.", "x")), "filters.field"),
        (query(**where("name")), "filters.values"),
        (query(**where("name", "a", "b")), "filters.values"),
        (query(**where("name", *MANY, operator=FilterOperator.IN)), "filters.values"),
        (query(**where("name", "x" * 1025)), "filters.values"),
        (query(**where("name", "a\x00")), "filters.values"),
        (query(**where("kind", "POEM")), "filters.values"),
        (query(filters=where("name", "a")["filters"] * 33), "filters"),
        (query(at_least=(VersionFloor(document_id="", version=1),)), "at_least.document_id"),  # type: ignore[arg-type]
        (query(at_least=(VersionFloor(document_id="d", version=0),)), "at_least.version"),  # type: ignore[arg-type]
        (query(reply_to="freki.documents.v1"), "reply_to"),
    ],
)
def test_a_broken_rule_names_its_field(broken: ContextQuery, field: str) -> None:
    with pytest.raises(InvalidQuery, match=f"^{field}: "):
        validate_query(broken, reply_topics=["answers.mine"])


def test_limits_are_the_services() -> None:
    with pytest.raises(InvalidQuery, match=r"^text: 11 characters are more than 10"):
        validate_query(query(), max_characters=10)
    with pytest.raises(InvalidQuery, match=r"^top_k: 201 is outside 1\.\.200"):
        validate_query(query(top_k=201))


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (where("name", "Hand", operator=FilterOperator.PREFIX), "filters"),
        ({"where": "language = de AND NOT (kind = PROSE OR name STARTS WITH Hand)"}, "where"),
    ],
)
def test_the_beginning_of_a_name_is_refused_where_names_are_encrypted(asked: dict[str, Any], field: str) -> None:
    validate_query(query(**asked))
    with pytest.raises(InvalidQuery, match=f"^{field}: {NO_PREFIX}"):
        validate_query(query(**asked), encrypts_names=True)


def test_whole_names_and_the_beginning_of_other_fields_pass_where_names_are_encrypted() -> None:
    whole = where("name", "a", "b", operator=FilterOperator.NOT_IN)
    begins = "(name IN (a, b) OR name != c) AND media_type STARTS WITH text AND attribute.name STARTS WITH x"
    validate_query(query(**whole, where=begins), encrypts_names=True)


numbers = st.none() | st.integers(-1, 300)


@given(
    query=st.builds(
        ContextQuery,
        query_id=st.text(max_size=4),
        tenant=st.text(max_size=4),
        text=st.text(max_size=6),
        asked_at=st.integers(0, 10),
        principals=st.lists(st.text(max_size=3), max_size=2).map(tuple),
        top_k=numbers,
        alpha=st.none() | st.floats(),
        min_score=st.none() | st.floats(),
        levels=st.none() | st.lists(st.integers(-1, 3), max_size=3).map(tuple),
        filters=st.lists(
            st.builds(
                Filter,
                field=st.sampled_from(["name", "kind", "attributes.a", "attributes.", "x"]) | st.text(max_size=4),
                operator=st.sampled_from(FilterOperator),
                values=st.lists(st.text(max_size=4), max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
    )
)
def test_a_query_passes_or_is_refused_and_nothing_else_happens(query: ContextQuery) -> None:
    try:
        validate_query(query)
    except InvalidQuery:
        pass
    else:
        assert query.text.encode()
        assert query.alpha is None or 0 <= query.alpha <= 1
