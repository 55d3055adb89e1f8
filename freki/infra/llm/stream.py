"""A completion as it is written: server-sent events of OpenAI's chat interface.

Each event is `data: {"choices": [{"delta": {"content"}, "finish_reason"}]}`; the last one is `data: [DONE]`. Thoughts
in fields of their own (`reasoning_content`, `reasoning`) are not read.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import structlog
from pydantic import BaseModel, Field, ValidationError

from freki.infra.llm.client import LlmClient
from freki.schemas import NoCompletion, Prompt
from freki.schemas.answer import StreamEnd
from freki.schemas.errors import Busy, InfraError, Rejected, Unavailable

STALL_S: Final = 20.0
"""Longest pause between two events once the answer began, in seconds."""
ATTEMPTS: Final = 2
"""Attempts until the first text comes; text that was shown is not asked for again."""
_PAUSE_S: Final = 0.5
_MOST_BYTES: Final = 4_000_000
_MOST_LINE: Final = 200_000
_CHARS_A_TOKEN: Final = 4
_log = structlog.get_logger(__name__)


class _Delta(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)


class _Event(BaseModel, hide_input_in_errors=True):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


class LlmStream(LlmClient):
    """The language model that the settings name, also as a stream. Satisfies StreamingLlm of `streams.ports`."""

    async def stream(self, prompt: Prompt, *, max_tokens: int) -> AsyncIterator[str | StreamEnd | NoCompletion]:
        """Yield the text of a completion as it comes; last its end, or why there is no more of it. Raises nothing."""
        async with self._places:
            if not self._breaker.allows():
                yield NoCompletion(reason=self._breaker.reason, gist=self._breaker.reason)
                return
            try:
                async for event in self._attempts(prompt, max_tokens):
                    yield event
            except InfraError as error:
                if rest_s := self._failed(error):
                    _log.warning("the language model is left alone", error=str(error), rest_s=rest_s)
                yield NoCompletion(reason=str(error), gist=error.gist)
            else:
                self._breaker.succeeded()

    async def _attempts(self, prompt: Prompt, max_tokens: int) -> AsyncIterator[str | StreamEnd]:
        end_at = time.monotonic() + self._settings.timeout_s
        for attempt in range(1, ATTEMPTS + 1):
            began = False
            try:
                async for event in self._events(prompt, max_tokens, end_at):
                    began = True
                    yield event
            except Unavailable as error:
                wait_s = error.wait_s if isinstance(error, Busy) else _PAUSE_S
                if began or attempt == ATTEMPTS or time.monotonic() + wait_s > end_at:
                    raise
                await asyncio.sleep(wait_s)
            else:
                return

    async def _events(self, prompt: Prompt, max_tokens: int, end_at: float) -> AsyncIterator[str | StreamEnd]:
        body = {
            **self._request(prompt, max_tokens),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        started, written = time.perf_counter(), 0
        finish, usage = "", None
        try:
            async with self._client.stream("POST", self._url, json=body) as response:
                if not response.is_success:
                    await self._read(response)
                async for event in self._parsed(response, end_at):
                    usage = event.usage or usage
                    for choice in event.choices[:1]:
                        text = ((choice.delta or choice.message) or _Delta()).content
                        finish = choice.finish_reason or finish
                        if text:
                            written += len(text)
                            yield text
        except httpx.HTTPError as error:
            raise Unavailable(f"{self._url} does not answer: {type(error).__name__} {error}") from error
        if not finish:
            raise Unavailable(f"{self._url} ended its answer without saying so", gist="the answer broke off")
        used = usage or _Usage(
            prompt_tokens=(len(prompt.system) + len(prompt.user)) // _CHARS_A_TOKEN,
            completion_tokens=written // _CHARS_A_TOKEN,
        )
        tokens = used.prompt_tokens + used.completion_tokens
        self._calls.computed("chat", self.model, tokens=tokens, seconds=time.perf_counter() - started)
        yield StreamEnd(
            truncated=finish == "length",
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
        )

    async def _parsed(self, response: httpx.Response, end_at: float) -> AsyncIterator[_Event]:
        if "json" in response.headers.get("content-type", ""):
            # A server that knows no streams sends the whole.
            yield self._event((await self._read(response)).decode(errors="replace"))
            return
        async for line in self._lines(response, end_at):
            if not line.startswith("data:"):
                continue
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                return
            yield self._event(data)

    def _event(self, data: str) -> _Event:
        try:
            event = _Event.model_validate_json(data)
        except ValidationError as error:
            raise Rejected(f"{self._url} does not answer as a chat interface: {error}") from error
        if event.error is not None:
            raise Unavailable(f"{self._url} says: {json.dumps(event.error)[:200]}", gist="it reported an error")
        return event

    async def _lines(self, response: httpx.Response, end_at: float) -> AsyncIterator[str]:
        """Yield lines; raises Unavailable for a pause or an answer that is too long, Rejected for too many bytes."""
        pieces = aiter(response.aiter_bytes())
        rest, received, began = b"", 0, False
        while True:
            left_s = end_at - time.monotonic()
            try:
                async with asyncio.timeout(min(STALL_S, left_s) if began else left_s):
                    piece = await anext(pieces, None)
            except TimeoutError as error:
                why = f"was silent for {STALL_S:g} s" if left_s > STALL_S else "took longer than FREKI_LLM__TIMEOUT_S"
                raise Unavailable(f"{self._url} {why}", gist="it stopped answering") from error
            if piece is None:
                if rest:
                    yield rest.decode(errors="replace")
                return
            began = True
            received += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            if received > _MOST_BYTES or len(rest) > _MOST_LINE:
                raise Rejected(f"{self._url} answers with more than {_MOST_BYTES} bytes")
            for line in lines:
                yield line.decode(errors="replace").rstrip("\r")
