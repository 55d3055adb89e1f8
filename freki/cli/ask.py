"""`freki ask`: ask one question over the topics and print its answer."""

import asyncio
import json
import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from freki.cli.arguments import expanded
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.query_arguments import OutputArguments, OverrideArguments, QueryArguments, checked, with_flags
from freki.cli.show import show_result, show_trace
from freki.cli.show_explanation import show_explanation
from freki.cli.terminal import without_controls
from freki.client.exchange import patience_of
from freki.client.hits import hits_of
from freki.infra.settings import Settings
from freki.infra.telemetry.trace_files import SpanRecord, read_trace
from freki.schemas import ContextQuery, ContextResult, QueryId, RequestKind, ResultStatus, TenantId
from freki.schemas.errors import Misconfigured
from freki.streams.wire.connect import open_asker
from freki.streams.wire.from_settings import wall_clock

EXIT_EMPTY = 3
TRACE_LOOKS = 20
TRACE_PAUSE_S = 0.1
"""Pause between looks for a trace: spans are written some tenths of a second after they end."""


@command
@expanded
async def ask(
    question: Annotated[str, typer.Argument(help="What to ask; not needed to read chunks")] = "",
    *,
    asked: QueryArguments,
    overrides: OverrideArguments,
    output: OutputArguments,
) -> None:
    """Ask a question and show what Freki finds.

    Exit code 0: something was found, 3: nothing, 1: the query was refused or not answered, or searching failed,
    2: wrong options.
    """
    settings = _with_token(load_settings(), asked.token_file)
    query = ContextQuery(
        query_id=QueryId(str(uuid.uuid4())),
        tenant=TenantId(asked.tenant or settings.tenant),
        text=question,
        asked_at=wall_clock(),
        **asked.values(),
        **overrides.values,
    )
    checked(query, max_characters=settings.retrieval.max_query_chars)
    try:
        result = await _answer(_traced(settings) if output.trace else settings, query)
    except Misconfigured as error:
        raise Misconfigured(_with_options(str(error), asked)) from error
    _show(result, query, output)
    if output.trace:
        screen = errors if output.as_json or output.context else console
        show_trace(screen, result.trace_id, await _spans(settings, result.trace_id))
    if result.status in {ResultStatus.REJECTED, ResultStatus.EXPIRED}:
        raise typer.Exit(1)
    if not hits_of(result):
        raise typer.Exit(EXIT_EMPTY)


async def _answer(settings: Settings, query: ContextQuery) -> ContextResult:
    wait_s = patience_of(query.deadline_ms or settings.retrieval.deadline_ms)
    async with open_asker(settings, answers_on=query.reply_to, tenant=query.tenant) as asker:
        try:
            # Connecting takes a tenth of a second, which is not part of the answer's time.
            return await asker.ask(replace(query, asked_at=wall_clock()), patience_s=wait_s)
        except TimeoutError:
            fail(f"no answer within {wait_s:.0f} s: does a worker run the retrieve stage? See `freki status`")


def _show(result: ContextResult, query: ContextQuery, output: OutputArguments) -> None:
    if output.as_json:
        console.print_json(json.dumps(asdict(result)))
    elif output.context:
        # As it is, for whatever reads it: not wrapped, and no tab or :name: turned into something else.
        typer.echo(without_controls(result.context) if console.is_terminal else result.context)
    else:
        whole, verbose = query.kind is RequestKind.CHUNK_READ, output.verbose or output.trace
        notices = tuple(replace(each, message=with_flags(each.message)) for each in result.notices)
        show_result(console, replace(result, notices=notices), question=query.text, whole=whole, verbose=verbose)
        show_explanation(console, result)


def _with_options(problem: str, asked: QueryArguments) -> str:
    """Return what is wrong with the options of this command in place of the settings that they replace."""
    if asked.reply_to is not None and problem.startswith(f"topic {asked.reply_to} "):
        return (
            f"--reply-to: {problem.partition(';')[0]}; name one of FREKI_RETRIEVAL__REPLY_TOPICS of the workers, or "
            "leave it out"
        )
    return problem if asked.token_file is None else problem.replace("FREKI_AUTH__TOKEN_FILE=", "--token-file ")


def _with_token(settings: Settings, file: Path | None) -> Settings:
    """Return settings with the file of the token."""
    if file is None:
        return settings
    return settings.model_copy(update={"auth": settings.auth.model_copy(update={"token_file": file})})


def _traced(settings: Settings) -> Settings:
    """Return settings that keep every trace: workers sample a query as its sender does."""
    telemetry = settings.telemetry.model_copy(update={"trace_share": 1.0})
    return settings.model_copy(update={"telemetry": telemetry})


async def _spans(settings: Settings, trace_id: str) -> list[SpanRecord]:
    """Read the trace once the worker has recorded that it sent the answer."""
    if settings.telemetry.trace_dir is None:
        fail("traces are not kept in files here: set FREKI_TELEMETRY__TRACE_DIR, or look in your trace backend")
    spans: list[SpanRecord] = []
    for _ in range(TRACE_LOOKS):
        spans = read_trace(settings.telemetry.trace_dir, trace_id)
        if any(span.kind == "CONSUMER" for span in spans):
            break
        await asyncio.sleep(TRACE_PAUSE_S)
    return spans
