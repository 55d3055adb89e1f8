"""Search in the form of OpenAI's vector stores, for clients that speak it: a store is a tenant.

What does not fit is refused, never dropped: several queries at once, `or`, comparisons of numbers, rewriting.
"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI
from pydantic import BaseModel, FailFast, Field
from starlette.requests import Request

from freki.client.hits import hits_of
from freki.infra.api.callers import Caller
from freki.infra.http_server.api import HttpApi, answered, checked_result, trace_of
from freki.infra.http_server.bodies import Body, Part
from freki.infra.http_server.problems import Problem
from freki.schemas import (
    ATTRIBUTE_PREFIX,
    FILTER_FIELDS,
    ContextHit,
    ContextQuery,
    Filter,
    FilterOperator,
    QueryId,
    RerankerChoice,
    Timestamp,
)

_OPERATORS = {
    "eq": FilterOperator.EQ,
    "ne": FilterOperator.NE,
    "in": FilterOperator.IN,
    "nin": FilterOperator.NOT_IN,
}


class Comparison(Part):
    """A condition on one attribute; `document_id`, `name`, `media_type`, `language` and `kind` name fields."""

    type: Literal["eq", "ne", "in", "nin"]
    key: str
    value: str | list[str]


class All(Part):
    """Conditions that hold together."""

    type: Literal["and"]
    # Errors have the paths of their filters: those of thousands in lists within lists took seconds to make.
    filters: Annotated[list["Comparison | All"], FailFast()]


class Ranking(Part):
    """How hits are chosen."""

    ranker: str = Field(default="auto", description="`none`: without a reranker; any other: as set")
    score_threshold: float | None = Field(default=None, description="Least score, as `min_score` of a query")


class StoreSearch(Body):
    """What is searched."""

    query: str
    filters: Comparison | All | None = None
    max_num_results: int = Field(default=10, ge=1, le=50)
    ranking_options: Ranking = Ranking()
    rewrite_query: Literal[False] = False


class Content(BaseModel):
    """Text of a hit."""

    type: Literal["text"] = "text"
    text: str


class Found(BaseModel):
    """A hit; a document with several has several."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str] | None = None
    content: list[Content]
    chunk_id: str
    version: int
    start: int
    end: int
    generated: bool
    """Whether a language model wrote the content, as a summary."""


class Page(BaseModel):
    """All hits: there is no next page."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: str
    data: list[Found]
    has_more: Literal[False] = False
    next_page: None = None


def add_vector_stores(app: FastAPI, api: HttpApi) -> None:
    """Add the route."""
    Known = Annotated[Caller, Depends(api.guard.caller)]  # noqa: N806 - a type

    @app.post("/v1/vector_stores/{vector_store_id}/search", summary="Search, in the form of OpenAI's vector stores")
    async def search(vector_store_id: str, body: StoreSearch, request: Request, caller: Known) -> Page:
        query = ContextQuery(
            query_id=QueryId(""),
            tenant=api.tenant_of(caller, vector_store_id),
            text=body.query,
            asked_at=Timestamp(0),
            top_k=body.max_num_results,
            filters=tuple(_conditions(body.filters)),
            min_score=body.ranking_options.score_threshold,
            reranker=RerankerChoice.NONE if body.ranking_options.ranker == "none" else None,
        )
        with trace_of(request):
            result = checked_result(await answered(api.gateway.ask(query, token=caller.token)))
        return Page(search_query=body.query, data=[_found(hit) for hit in hits_of(result)])


def _conditions(given: Comparison | All | None) -> Iterator[Filter]:
    if isinstance(given, All):
        for each in given.filters:
            yield from _conditions(each)
    elif given is not None:
        values = (given.value,) if isinstance(given.value, str) else tuple(given.value)
        if isinstance(given.value, str) != (given.type in {"eq", "ne"}):
            number = "one value" if given.type in {"eq", "ne"} else "a list of values"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"filters.value: {given.type} compares with {number}")
        field = given.key if given.key in FILTER_FIELDS else f"{ATTRIBUTE_PREFIX}{given.key}"
        yield Filter(field=field, operator=_OPERATORS[given.type], values=values)


def _found(hit: ContextHit) -> Found:
    names = ("chunk_id", "version", "start", "end", "score", "generated")
    placed: dict[str, Any] = {name: getattr(hit, name) for name in names}
    return Found(file_id=hit.document_id, filename=hit.name, content=[Content(text=hit.text)], **placed)
