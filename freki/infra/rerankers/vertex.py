"""A reranker that calls Vertex AI's ranking API, without Google's libraries.

`POST {url}/v1/projects/{project}/locations/{location}/rankingConfigs/{config}:rank
{"model", "query", "records": [{"id", "title", "content"}], "ignoreRecordDetailsInResponse": true}` answers
`{"records": [{"id", "score"}]}`, best first; a score is rounded to hundredths. Tokens live for an hour.
"""

import asyncio
import shlex
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import httpx
from pydantic import BaseModel, Field

from freki.infra.rerankers.service import RankingService, ServiceReranker
from freki.infra.settings import VertexRerankerSettings
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.index import RerankPair

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

    def __init__(self, settings: VertexRerankerSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        if not settings.project:
            raise Misconfigured("FREKI_VERTEX_RERANKER__PROJECT names no project")
        self._settings = settings
        self._tokens = _Tokens(settings, clock)
        place = f"projects/{settings.project}/locations/{settings.location}/rankingConfigs/{settings.config}"
        url = f"{settings.url.rstrip('/')}/v1/{place}:rank"
        service = RankingService(url, section="FREKI_VERTEX_RERANKER", timeout_s=settings.timeout_s)
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
        if self._settings.token_file is not None:
            return await asyncio.to_thread(self._of_file)
        if self._settings.token_command:
            return await self._of_command(self._settings.token_command)
        raise Misconfigured(
            "Vertex AI requires a token: set FREKI_VERTEX_RERANKER__TOKEN, __TOKEN_FILE or __TOKEN_COMMAND"
        )

    def _of_file(self) -> str:
        path = self._settings.token_file
        try:
            return path.read_text(encoding="ascii").strip() if path else ""
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"FREKI_VERTEX_RERANKER__TOKEN_FILE={path} cannot be read: {error}") from error

    async def _of_command(self, command: str) -> str:
        # Its arguments may be secret.
        setting = f"FREKI_VERTEX_RERANKER__TOKEN_COMMAND={command.partition(' ')[0]}"
        try:
            words = shlex.split(command)
            process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
        except (OSError, ValueError) as error:
            raise Misconfigured(f"{setting} cannot be run: {error}") from error
        try:
            async with asyncio.timeout(_COMMAND_S):
                out, said = await process.communicate()
        except TimeoutError as error:
            raise Unavailable(f"{setting} printed no token within {_COMMAND_S:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode or not out.strip():
            raise Unavailable(f"{setting} ended with {process.returncode}: {said.decode(errors='replace')[:200]}")
        return out.decode("ascii", errors="replace").strip()
