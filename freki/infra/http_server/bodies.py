"""What requests of the HTTP API hold: the records of the topics, without what the API fills in."""

import json
from base64 import b64decode
from dataclasses import MISSING, Field, fields
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationInfo, create_model, field_validator
from pydantic import Field as Described

from freki.infra.http_server.problems import Problem
from freki.schemas import (
    ContextQuery,
    DocumentChange,
    DocumentQuery,
    Judgement,
    Operation,
    QueryId,
    TenantId,
    Timestamp,
)
from freki.schemas.json_values import check_kind
from freki.schemas.names import LARGEST_INTEGER

_FILLED_IN: dict[type[Any], set[str]] = {
    ContextQuery: {"query_id", "asked_at", "reply_to"},
    DocumentChange: {"operation", "claim"},
    Judgement: {"at"},
}
"""What the API knows itself."""


class Part(BaseModel):
    """Base of what bodies hold: no unknown fields, and no values that would be read as other ones than was meant."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _is_of_kind(cls, given: object, info: ValidationInfo) -> object:
        check_kind(given, cls.model_fields[info.field_name or ""].annotation)
        return given


class Body(Part):
    """Base of all bodies: no text that UTF-8 cannot write either."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_text(cls, given: object) -> object:
        try:
            json.dumps(given, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            # The escapes of JSON can say it; pydantic lets it pass, and no record can hold it.
            raise ValueError(
                "it has half of a character (a lone surrogate), as text cut within an emoji has"
            ) from error
        except RecursionError as error:
            # Writing takes a little more of the stack than reading did.
            raise ValueError("it is nested too deep") from error
        return given


def _body(name: str, record: type[Any], **more: tuple[Any, Any]) -> type[BaseModel]:
    """Return a model with the fields of a record; `tenant` may be left out, as may what has a default."""
    hints = get_type_hints(record)
    asked = [field for field in fields(record) if field.name not in _FILLED_IN[record]]
    given = {field.name: (hints[field.name], _default(field)) for field in asked}
    given["tenant"] = (str | None, Described(default=None, description="none: that of the server or of the token"))
    return create_model(name, __base__=Body, **(given | more))


def _default(field: "Field[Any]") -> object:
    if field.default_factory is not MISSING:
        return Described(default_factory=field.default_factory)
    return ... if field.default is MISSING else field.default


if TYPE_CHECKING:

    class _Named(Body):
        """What is made below."""

        tenant: str | None

    class Question(_Named):
        """What is made below."""

        text: str

    class Document(_Named):
        """What is made below."""

    class Verdict(_Named):
        """What is made below."""

        judge: str | None

else:
    Question = _body("Question", ContextQuery)
    Document = _body(
        "Document",
        DocumentChange,
        version=(
            int,
            Described(
                default=0, ge=0, le=LARGEST_INTEGER, description="grows with every change; 0: now, in milliseconds"
            ),
        ),
        occurred_at=(
            int,
            Described(default=0, ge=0, le=LARGEST_INTEGER, description="milliseconds since 1970; 0: now"),
        ),
        content=(str | None, Described(default=None, description="the text")),
        content_base64=(str | None, Described(default=None, description="bytes of a file, in place of `content`")),
    )
    Verdict = _body("Verdict", Judgement, judge=(str | None, Described(default=None, description="who judges")))


def query_of(body: BaseModel, *, tenant: TenantId) -> ContextQuery:
    """Return the query; the gateway gives it an id and its time."""
    return ContextQuery(**_values(body) | {"query_id": QueryId(""), "asked_at": Timestamp(0), "tenant": tenant})


def change_of(body: BaseModel, *, tenant: TenantId) -> DocumentChange:
    """Return the change. Raises Problem if it has no content, or two, or what is no base64."""
    values = _values(body)
    encoded = values.pop("content_base64")
    if (encoded is None) == (values["content"] is None):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "give either `content` or `content_base64`")
    if encoded is not None:
        try:
            values["content"] = b64decode(encoded, validate=True)
        except ValueError as error:
            # Also of letters beyond ASCII, which are no binascii.Error.
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"content_base64 is no base64: {error}") from error
    return DocumentChange(**values | {"operation": Operation.UPSERT, "tenant": tenant})


def judgement_of(body: BaseModel, *, tenant: TenantId, judge: str) -> Judgement:
    """Return the judgement; the gateway gives it its time."""
    return Judgement(**_values(body) | {"judge": judge, "at": Timestamp(0), "tenant": tenant})


def _values(body: BaseModel) -> dict[str, Any]:
    return {name: getattr(body, name) for name in type(body).model_fields}


documents_query = partial(DocumentQuery, query_id=QueryId(""), asked_at=Timestamp(0))
