"""A reranker that calls Vertex AI's ranking API, without Google's libraries.

`POST {url}/v1/projects/{project}/locations/{location}/rankingConfigs/{config}:rank
{"model", "query", "records": [{"id", "title", "content"}], "ignoreRecordDetailsInResponse": true}` answers
`{"records": [{"id", "score"}]}`, best first; a score is rounded to hundredths. Tokens live for an hour.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import httpx
from pydantic import BaseModel, Field

from freki.infra.elapsed import elapsed_s
from freki.infra.rerankers.service import RankingService, ServiceReranker
from freki.infra.settings import VertexRerankerSettings
from freki.infra.token_sources import token_of_command, token_of_file
from freki.schemas.errors import Misconfigured
from freki.schemas.index import RerankPair

_SECTION = "FREKI_VERTEX_RERANKER"
CALL_RECORDS = 200
"""Maximum records per call: the limit of the service."""
TOKEN_LIFE_S = 600.0
"""Time for which a token of a file or command is reused; it lives for an hour."""
_COMMAND_S = 10.0
"""Timeout of the token command."""


class _Record(BaseModel):
    id: str
    score: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    """0 is left out in the JSON form of protocol buffers."""


class _Reply(BaseModel, hide_input_in_errors=True):
    records: list[_Record]


class VertexReranker(ServiceReranker):
    """The ranking configuration of the settings."""

    name = "vertex"

    def __init__(self, settings: VertexRerankerSettings, *, clock: Callable[[], float] = elapsed_s) -> None:
        if not settings.project:
            raise Misconfigured(f"{_SECTION}__PROJECT names no project")
        self._settings = settings
        self._tokens = _Tokens(settings, clock)
        place = f"projects/{settings.project}/locations/{settings.location}/rankingConfigs/{settings.config}"
        url = f"{settings.url.rstrip('/')}/v1/{place}:rank"
        service = RankingService(url, section=_SECTION, timeout_s=settings.timeout_s)
        super().__init__(service, most=CALL_RECORDS)

    async def _ask(self, query: str, pairs: Sequence[RerankPair]) -> Mapping[int, float]:
        body = {
            "model": self._settings.model,
            "query": query,
            "records": [
                {"id": str(place), "title": pair.heading, "content": pair.text} for place, pair in enumerate(pairs)
            ],
            "ignoreRecordDetailsInResponse": True,
        }
        with self._service.translated():
            reply = _Reply.model_validate_json(await self._post(body))
        scores = {int(each.id): each.score for each in reply.records if each.id.isdecimal()}
        return self._service.complete(scores, len(pairs))

    async def _post(self, body: Mapping[str, Any]) -> bytes:
        """Send a request; retry once with a new token if the token is refused."""
        try:
            return await self._service.post(body, token=await self._tokens.get())
        except httpx.HTTPStatusError as error:
            if error.response.status_code != HTTPStatus.UNAUTHORIZED or not self._tokens.forget():
                raise
        return await self._service.post(body, token=await self._tokens.get())


class _Tokens:
    """Bearer tokens from the settings, a file or a command."""

    def __init__(self, settings: VertexRerankerSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._turn = asyncio.Lock()
        self._known, self._until = "", 0.0

    async def get(self) -> str:
        """Return a token. Raises Misconfigured or Unavailable, naming the setting."""
        if self._settings.token is not None:
            return self._settings.token.get_secret_value()
        async with self._turn:
            if self._clock() >= self._until:
                self._known = await self._read()
                self._until = self._clock() + TOKEN_LIFE_S
            return self._known

    def forget(self) -> bool:
        """Discard the token; return whether a new one can be fetched."""
        self._until = 0.0
        return self._settings.token is None

    async def _read(self) -> str:
        if path := self._settings.token_file:
            return await asyncio.to_thread(token_of_file, f"{_SECTION}__TOKEN_FILE", path)
        if command := self._settings.token_command:
            setting = f"{_SECTION}__TOKEN_COMMAND"
            return await asyncio.to_thread(token_of_command, setting, command, timeout_s=_COMMAND_S)
        raise Misconfigured(f"Vertex AI requires a token: set {_SECTION}__TOKEN, __TOKEN_FILE or __TOKEN_COMMAND")
