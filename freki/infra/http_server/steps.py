"""A query whose steps and hits come as server-sent events."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

import structlog
from fastapi import Depends, FastAPI
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from freki.infra.api.callers import Caller
from freki.infra.http_server.api import HttpApi, answered, checked_result, trace_of
from freki.infra.http_server.bodies import Question, query_of
from freki.infra.http_server.events import MEDIA_TYPE, event, streamed
from freki.infra.http_server.problems import Problem, problem_of
from freki.schemas import ContextHit, ContextResult, StageTime
from freki.schemas.errors import InfraError

_STEP, _HIT, _RESULT = TypeAdapter(StageTime), TypeAdapter(ContextHit), TypeAdapter(ContextResult)
_log = structlog.get_logger(__name__)
Heard = StageTime | ContextResult


def add_steps(app: FastAPI, api: HttpApi) -> None:
    """Add the route."""
    Known = Annotated[Caller, Depends(api.guard.caller)]  # noqa: N806 - a type
    described: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "Events `step` (StageTime), `hit` (ContextHit), then `result` (ContextResult without its"
            " hits), or `error` (problem details)",
            "content": {MEDIA_TYPE: {}},
        }
    }

    @app.post(
        "/v1/queries/stream",
        summary="Send a query, and receive each step",
        response_class=StreamingResponse,
        responses=described,
    )
    async def stream(body: Question, request: Request, caller: Known) -> StreamingResponse:
        query = query_of(body, tenant=api.tenant_of(caller, body.tenant))
        heard = api.gateway.stream(query, token=caller.token)
        # A query that is refused at once has a status of its own.
        with trace_of(request):
            first = await answered(anext(heard))
        if isinstance(first, ContextResult):
            checked_result(first)
        return streamed(_events(first, heard))


async def _events(first: Heard, heard: AsyncGenerator[Heard, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(heard):
        try:
            for each in _events_of(first):
                yield each
            while not isinstance(first, ContextResult):
                first = await answered(anext(heard))
                for each in _events_of(first):
                    yield each
        except (Problem, InfraError) as error:
            # The status has left already.
            _log.warning("call not answered", reason=str(error))
            yield event("error", problem_of(error).json().decode())


def _events_of(heard: Heard) -> Iterator[bytes]:
    if isinstance(heard, StageTime):
        yield event("step", _STEP.dump_json(heard).decode())
        return
    result = checked_result(heard)
    for hit in result.hits:
        yield event("hit", _HIT.dump_json(hit).decode())
    yield event("result", _RESULT.dump_json(replace(result, hits=())).decode())
