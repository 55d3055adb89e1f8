"""Options of `freki ask`: those that override query options come from their table, the others are declared here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from freki.cli.arguments import ArgumentGroup, given_path, not_empty
from freki.cli.context import fail
from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import parse_condition, validate_query
from freki.schemas import ChunkId, ContextQuery, DocumentId, RequestKind, VersionFloor
from freki.schemas.query_options import QUERY_OPTIONS, QueryOption

NONE = "NONE"
"""Word for an empty list."""
_FLAGS = {"top_k": ("--top", "-n"), "deadline_ms": ("--deadline",), "expand_documents": ("--expand",)}
"""Flags that are not named like their option."""
_FLAGS_OF_FIELDS = {
    "text": ("the question",),
    "principals": ("--as",),
    "where": ("--filter",),
    "levels": ("--level",),
    "chunk_ids": ("--chunk",),
    "document_ids": ("--document",),
    "target_model": ("--for",),
}
"""What sets the fields of QueryArguments that have another name."""


@dataclass(frozen=True, kw_only=True)
class QueryArguments(ArgumentGroup):
    """Fields of ContextQuery that are no query options."""

    panel: ClassVar[str | None] = "Query"

    kind: Annotated[
        RequestKind | None,
        typer.Option(
            help="What is asked for; default: retrieve, or chunk_read with the two below", case_sensitive=False
        ),
    ] = None
    chunk_ids: Annotated[list[str] | None, typer.Option("--chunk", help="A chunk to read, by id; may be repeated")] = (
        None
    )
    document_ids: Annotated[
        list[str] | None, typer.Option("--document", help="A document to read from its beginning; may be repeated")
    ] = None
    tenant: Annotated[str | None, typer.Option(help="Whose documents; default: FREKI_TENANT", callback=not_empty)] = (
        None
    )
    principals: Annotated[list[str] | None, typer.Option("--as", help="A user or group that asks; may be repeated")] = (
        None
    )
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Condition of hits, such as \"media_type = 'application/pdf' AND attribute.year >= 2024\": "
            "docs/queries.md; of several all must hold",
        ),
    ] = None
    levels: Annotated[list[int] | None, typer.Option("--level", help="0 document, 1 section, 2 paragraph")] = None
    language: Annotated[str | None, typer.Option(help="ISO 639-1")] = None
    target_model: Annotated[
        str | None, typer.Option("--for", help="Model that will read the context, such as phi3 or llama3.1:70b")
    ] = None
    at_least: Annotated[list[str] | None, typer.Option(help="document=version to wait for; may be repeated")] = None
    reply_to: Annotated[str | None, typer.Option(help="Topic for the answer; must be allowed", callback=not_empty)] = (
        None
    )
    token_file: Annotated[
        Path | None,
        typer.Option(parser=given_path, help="File with the token of who asks; default: FREKI_AUTH__TOKEN_FILE"),
    ] = None
    explain: Annotated[bool, typer.Option("--explain", help="Tell why each hit stands where it stands")] = False
    expect: Annotated[
        list[str] | None, typer.Option(help="Document that should be found: tell which step lost it; may be repeated")
    ] = None

    def values(self) -> Mapping[str, Any]:
        """Return the fields of ContextQuery but for the tenant."""
        reads = bool(self.chunk_ids or self.document_ids)
        return {
            "kind": self.kind or (RequestKind.CHUNK_READ if reads else RequestKind.RETRIEVE),
            "chunk_ids": tuple(map(ChunkId, self.chunk_ids or ())),
            "document_ids": tuple(map(DocumentId, self.document_ids or ())),
            "principals": tuple(self.principals or ()),
            "where": _where(self.where or ()),
            "levels": tuple(self.levels) if self.levels else None,
            "language": self.language,
            "target_model": self.target_model,
            "at_least": tuple(map(_floor, self.at_least or ())),
            "reply_to": self.reply_to,
            "explain": self.explain,
            "expect": tuple(map(DocumentId, self.expect or ())),
        }


class OverrideArguments(ArgumentGroup):
    """Query options that a query may set; those not given are null."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - as the options are declared
        self.values = {name: _value(QUERY_OPTIONS[name], value) for name, value in given.items()}

    @classmethod
    def parameters(cls) -> Sequence[Parameter]:
        """Return a parameter for each option."""
        return [_parameter(option) for option in QUERY_OPTIONS.values() if option.in_query]


@dataclass(frozen=True, kw_only=True)
class OutputArguments(ArgumentGroup):
    """Form of the answer in the terminal."""

    panel: ClassVar[str | None] = "Output"

    context: Annotated[bool, typer.Option("--context", help="Print the context text for a prompt instead")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON instead")] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print versions, all scores and the time of each step too")
    ] = False
    trace: Annotated[bool, typer.Option("--trace", help="As --verbose, and print the trace of this query")] = False


def _parameter(option: QueryOption) -> Parameter:
    flags = _FLAGS.get(option.name, (f"--{option.name.replace('_', '-')}",))
    if option.value_type is bool:
        flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}",)
    low, high = option.bounds or (None, None)
    again = "; may be repeated" if option.is_tuple else ""
    info = typer.Option(
        *flags,
        help=f"{option.description}{again}",
        min=low,
        max=high,
        rich_help_panel=option.group,
        case_sensitive=False,
    )
    kind: Any = list[_or_none(option)] if option.is_tuple else option.value_type  # type: ignore[misc] # at run time
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info])


def checked(query: ContextQuery, *, max_characters: int) -> ContextQuery:
    """Return a query that its contract allows; name the flag and end the command otherwise.

    Only workers know which topics answers may go to, so `reply_to` is left to them.
    """
    try:
        validate_query(query, max_characters=max_characters, reply_topics=[query.reply_to] if query.reply_to else ())
    except InvalidQuery as error:
        field, _, problem = str(error).partition(": ")
        # What a record has as null, an option says by its absence.
        fail(f"{_flag(field)}: {with_flags(problem).replace(' or null ', ' or leave it out ')}", code=2)
    return query


def with_flags(message: str) -> str:
    """Return a message of a worker with the flags of this command in place of names of fields."""
    known = QUERY_OPTIONS.keys() | _FLAGS_OF_FIELDS.keys()
    return re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda found: _flag(found[0]) if found[0] in known else found[0], message)


def _flag(field: str) -> str:
    name = field.partition(".")[0]
    known = _FLAGS.get(name) or _FLAGS_OF_FIELDS.get(name)
    return known[0] if known else f"--{name.replace('_', '-')}"


def _or_none(option: QueryOption) -> type[StrEnum]:
    """Return the choices of a list, and one for an empty list."""
    values: list[str] = [*(each.value for each in option.value_type), NONE]
    choices: type[StrEnum] = StrEnum(option.value_type.__name__, dict(zip(values, values, strict=True)))  # type: ignore[misc]
    return choices


def _value(option: QueryOption, given: Any) -> Any:  # noqa: ANN401 - of any option
    """Return the value of a field of ContextQuery."""
    if not option.is_tuple:
        return given
    return tuple(option.value_type(each.value) for each in given if each.value != NONE) if given else None


def _where(conditions: Sequence[str]) -> str | None:
    """Return one condition of several; each is checked by itself, so that an error names its own characters."""
    for text in conditions:
        try:
            parse_condition(text)
        except InvalidQuery as error:
            fail(f"--filter: {str(error).partition(': ')[2]}", code=2)
    if len(conditions) < 2:  # noqa: PLR2004 - a pair needs parentheses
        return next(iter(conditions), None)
    return " AND ".join(f"({text})" for text in conditions)


def _floor(text: str) -> VersionFloor:
    document, found, version = text.rpartition("=")
    if not found or not version.isdecimal():
        fail(f"--at-least {text!r}: write document=version", code=2)
    return VersionFloor(document_id=DocumentId(document), version=int(version))
