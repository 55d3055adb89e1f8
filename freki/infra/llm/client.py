"""A client of language models, for any server with OpenAI's chat interface.

`POST {url}/chat/completions {"model", "messages", "max_tokens", "temperature"}` answers
`{"choices": [{"message": {"content"}, "finish_reason"}], "usage": {"prompt_tokens", "completion_tokens", ...}}`.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Self

import httpx
import stamina
import structlog
from pydantic import BaseModel, Field, JsonValue, ValidationError

from freki.infra.http.credentials import split_credentials, without_credentials
from freki.infra.http.errors import gist_of, refusal
from freki.infra.settings import LlmSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import Completion, NoCompletion, Prompt
from freki.schemas.circuit_breaker import CircuitBreaker
from freki.schemas.errors import Busy, InfraError, Misconfigured, Rejected, Unavailable

ATTEMPTS = 3
"""Maximum attempts per prompt."""
FAILURES = 3
"""Consecutive failures after which the server counts as down."""
REST_S = 30.0
"""Initial time without calls to a server that is down; then one call probes it, and doubles the time if it fails."""
LONGEST_REST_S = 600.0
"""Maximum time without calls to a server that is down."""
LONGEST_ASKED_REST_S = 86_400.0
"""Maximum time without calls to a server that asks for it: a quota of the day. More is the fault of a clock."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 10.0
"""Initial and maximum backoff between attempts."""
_REPLY_BYTES = 1_000_000
"""Maximum size of a response."""
_CHARS_A_TOKEN = 4
"""Estimated characters per token where the server reports no usage; about right for English, low for German."""

_log = structlog.get_logger(__name__)


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Cached(BaseModel):
    cached_tokens: int | None = Field(default=None, ge=0)


class _Usage(BaseModel):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    prompt_tokens_details: _Cached | None = None


class _Reply(BaseModel, hide_input_in_errors=True):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class LlmClient:
    """The language model that the settings name. Satisfies Llm of `streams.ports`.

    Connections are reused. After consecutive failures, calls fail immediately for a while, so that nothing waits for a
    server that is down.
    """

    def __init__(
        self, settings: LlmSettings, calls: Calls | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not settings.url or not settings.model:
            raise Misconfigured("FREKI_LLM__URL and FREKI_LLM__MODEL must both be set for a language model to be asked")
        key = settings.api_key
        url, auth = split_credentials(settings.url)
        self.model = settings.model
        self._settings = settings
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._calls = calls or Calls()
        self._places = asyncio.Semaphore(settings.at_once)
        self._breaker = CircuitBreaker(clock, failures=FAILURES, rest_s=REST_S, longest_rest_s=LONGEST_REST_S)
        self._client = httpx.AsyncClient(
            auth=auth,
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
            timeout=settings.timeout_s,
            limits=httpx.Limits(max_connections=settings.at_once),
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def complete(
        self, prompts: Sequence[Prompt], *, max_tokens: int, budget_s: float | None = None
    ) -> list[Completion | NoCompletion]:
        """Return a completion, or the reason of its absence, for each prompt; raises nothing.

        Calls start in order, some concurrently. max_tokens: limit per completion. budget_s: timeout of each call from
        its start; None: that of the settings.
        """
        limit_s = self._settings.timeout_s if budget_s is None else min(budget_s, self._settings.timeout_s)
        return list(await asyncio.gather(*(self._answer(prompt, max_tokens, limit_s) for prompt in prompts)))

    async def _answer(self, prompt: Prompt, max_tokens: int, limit_s: float) -> Completion | NoCompletion:
        async with self._places:
            if not self._breaker.allows():
                return NoCompletion(reason=self._breaker.reason, gist=self._breaker.reason)
            try:
                completion = await self._patiently(prompt, max_tokens, limit_s)
            except InfraError as error:
                if rest_s := self._failed(error):
                    _log.warning("the language model is left alone", error=str(error), rest_s=rest_s)
                return NoCompletion(reason=str(error), gist=error.gist)
            self._breaker.succeeded()
            return completion

    def _failed(self, error: InfraError) -> float:
        """Report a failed call; return the seconds for which calls are refused from now on, 0 for none.

        A rejected request does not count: it says nothing about other requests.
        """
        if isinstance(error, Rejected) and not isinstance(error, Misconfigured):
            return 0.0
        # Reported to senders of other prompts, so it must not quote this one.
        reason = f"the language model is left alone: {error.gist}"
        wait_s = min(error.wait_s, LONGEST_ASKED_REST_S) if isinstance(error, Busy) else 0.0
        return self._breaker.failed(reason, wait_s=wait_s, longest_rest_s=max(LONGEST_REST_S, wait_s))

    async def _patiently(self, prompt: Prompt, max_tokens: int, limit_s: float) -> Completion:
        failure: Unavailable | None = None

        async def attempt() -> Completion:
            nonlocal failure
            try:
                return await self._ask(prompt, max_tokens)
            except Unavailable as error:
                failure = error
                raise

        retrying = stamina.AsyncRetryingCaller(
            attempts=ATTEMPTS, timeout=None, wait_initial=_FIRST_WAIT_S, wait_max=_LONGEST_WAIT_S
        )
        try:
            async with asyncio.timeout(limit_s):
                return await retrying.on(partial(_again, limit_s=limit_s))(attempt)
        except TimeoutError as error:
            raise failure or Unavailable(
                f"{self._url} gave no answer within {limit_s:g} s; see FREKI_LLM__TIMEOUT_S"
            ) from error

    async def _ask(self, prompt: Prompt, max_tokens: int) -> Completion:
        body = self._request(prompt, max_tokens)
        started = time.perf_counter()
        with _translated(self._url):
            async with self._client.stream("POST", self._url, json=body) as response:
                raw = await self._read(response)
            reply = _Reply.model_validate_json(raw)
        text = reply.choices[0].message.content or ""
        usage = reply.usage or _Usage(
            prompt_tokens=(len(prompt.system) + len(prompt.user)) // _CHARS_A_TOKEN,
            completion_tokens=len(text) // _CHARS_A_TOKEN,
        )
        details = usage.prompt_tokens_details
        self._calls.computed(
            "chat",
            self.model,
            tokens=usage.prompt_tokens + usage.completion_tokens,
            seconds=time.perf_counter() - started,
        )
        return Completion(
            text=text,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=(details and details.cached_tokens) or 0,
            completion_tokens=usage.completion_tokens,
            truncated=reply.choices[0].finish_reason == "length",
        )

    def _request(self, prompt: Prompt, max_tokens: int) -> dict[str, JsonValue]:
        return {
            **self._settings.extra_body,
            "model": self.model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            "max_tokens": max_tokens,
            "temperature": 0,
        }

    async def _read(self, response: httpx.Response) -> bytes:
        raw = bytearray()
        async for piece in response.aiter_bytes():
            raw += piece
            if len(raw) > _REPLY_BYTES:
                raise Rejected(f"{self._url} answers with more than {_REPLY_BYTES} bytes")
        if not response.is_success:
            raise _refused(response, raw.decode(errors="replace"))
        return bytes(raw)


def _again(error: Exception, *, limit_s: float) -> bool | float:
    """Return whether to retry, or the wait in seconds that the server asks for."""
    if isinstance(error, Busy):
        return error.wait_s < limit_s and error.wait_s
    return isinstance(error, Unavailable)


def _refused(response: httpx.Response, text: str) -> InfraError:
    message = f"{response.url} answered {response.status_code}: {without_credentials(response, text)[:200]}"
    # With this interface a conflict is a lock of the server, which is released: OpenAI's own client tries again.
    hint = "see FREKI_LLM__URL, __MODEL and __API_KEY"
    return refusal(response, message, hint=hint, conflict_is_transient=True)


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Translate errors, keeping the original as the cause."""
    try:
        yield
    except httpx.HTTPError as error:
        message = f"{url} does not answer: {type(error).__name__} {error}"
        raise Unavailable(message, gist=gist_of(error)) from error
    except ValidationError as error:
        raise Rejected(f"{url} does not answer as a chat interface: {error}") from error
