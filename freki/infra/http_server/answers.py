"""Answers of a language model over HTTP, as server-sent events."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Protocol

from fastapi import Depends, FastAPI, Query
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from freki.infra.api.callers import Caller
from freki.infra.http_server.api import HttpApi, asked
from freki.infra.http_server.bodies import Question
from freki.infra.http_server.events import MEDIA_TYPE, event, streamed
from freki.schemas import ContextResult
from freki.schemas.answer import (
    AnswerEnd,
    AnswerEvent,
    AnswerRestart,
    AnswerSentence,
    AnswerText,
)
from freki.schemas.answer_marks import HitMarks

_NAMES: dict[type[object], str] = {
    AnswerText: "text",
    AnswerRestart: "restart",
    AnswerSentence: "sentence",
    AnswerEnd: "end",
}
_RESULT = TypeAdapter(ContextResult)
_MARKS = TypeAdapter(list[HitMarks])
Write = Annotated[bool, Query(description="False: only the hits, with marks; no language model is asked")]


class Answerer(Protocol):
    """What writes answers."""

    def answer(self, question: str, result: ContextResult) -> AsyncIterator[AnswerEvent]:
        """Yield the answer to a question from the hits of its result; the last event is AnswerEnd."""

    def marks(self, question: str, result: ContextResult) -> list[HitMarks]:
        """Return where the words of a question stand in its hits."""


def add_answers(app: FastAPI, api: HttpApi, answerer: Answerer) -> None:
    """Add the route."""
    Known = Annotated[Caller, Depends(api.guard.caller)]  # noqa: N806 - a type
    told = {
        200: {
            "content": {MEDIA_TYPE: {}},
            "description": "Events: result, marks, text, sentence, restart, end",
        }
    }

    @app.post(
        "/v1/answers",
        summary="Send a query, and have an answer written",
        response_class=StreamingResponse,
        responses=told,  # type: ignore[arg-type]
    )
    async def answer(body: Question, request: Request, caller: Known, *, write: Write = True) -> StreamingResponse:
        # Asked before the response begins, so that a refusal has its status.
        result = await asked(api, body, request, caller)
        return streamed(_events(answerer, body.text, result, wanted=write))


async def _events(answerer: Answerer, question: str, result: ContextResult, *, wanted: bool) -> AsyncIterator[bytes]:
    yield event("result", _RESULT.dump_json(result).decode())
    yield event("marks", _MARKS.dump_json(answerer.marks(question, result)).decode())
    if not wanted:
        return
    async for told in answerer.answer(question, result):
        yield event(_NAMES[type(told)], json.dumps(asdict(told)))
