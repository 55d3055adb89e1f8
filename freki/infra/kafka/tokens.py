"""Tokens for SASL OAUTHBEARER, from an identity provider, a file or a command.

An identity provider is asked by the client credentials grant of RFC 6749, section 4.4:
`POST {token_url} grant_type=client_credentials&scope=…` with id and secret as basic authentication answers
`{"access_token", "expires_in"}`.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Mapping

import aiokafka.abc
import aiokafka.conn
import httpx
from aiokafka.errors import KafkaError
from pydantic import BaseModel, Field, ValidationError

from freki.infra.elapsed import elapsed_s
from freki.infra.http.credentials import split_credentials, without_credentials
from freki.infra.http.errors import gist_of, is_transient, text_of
from freki.infra.settings import OAuthSettings
from freki.infra.token_sources import token_of_command, token_of_file
from freki.schemas.errors import InfraError, Misconfigured, Unavailable

_SECTION = "FREKI_KAFKA__OAUTH__"
_LIFE_SHARE = 0.8
"""Share of the lifetime of a token after which it is replaced, as in Kafka's own clients."""
_COMMAND_LIFE_S = 60.0
"""Time for which the token of a command is reused; a client opens several connections at once."""


class NoToken(KafkaError):  # type: ignore[misc] # aiokafka is untyped
    """No token is available; Kafka clients treat it as a failed connection and retry."""

    def __init__(self, reason: InfraError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Tokens:
    """A source of tokens, cached until shortly before they expire. Thread-safe; blocks while fetching."""

    def __init__(self, settings: OAuthSettings, *, clock: Callable[[], float] = elapsed_s) -> None:
        if (settings.token_url or settings.token_file or settings.token_command) is None:
            raise Misconfigured(
                "FREKI_KAFKA__SASL_MECHANISM=OAUTHBEARER needs a token: set FREKI_KAFKA__OAUTH__TOKEN_URL,"
                " FREKI_KAFKA__OAUTH__TOKEN_FILE or FREKI_KAFKA__OAUTH__TOKEN_COMMAND"
            )
        self.extensions: Mapping[str, str] = settings.extensions
        self._settings = settings
        self._clock = clock
        self._turn = threading.Lock()
        self._known, self._until = "", -math.inf

    def get(self) -> str:
        """Return a token. Raises NoToken."""
        with self._turn:
            if self._clock() >= self._until:
                try:
                    self._known, life_s = self._fetch()
                except InfraError as error:
                    raise NoToken(error) from error
                self._until = self._clock() + _LIFE_SHARE * life_s
            return self._known

    def _fetch(self) -> tuple[str, float]:
        """Return a token and its known lifetime in seconds."""
        if (command := self._settings.token_command) is not None:
            setting, timeout_s = f"{_SECTION}TOKEN_COMMAND", self._settings.timeout_s
            token = token_of_command(setting, command, timeout_s=timeout_s, timeout=f"{_SECTION}TIMEOUT_S")
            return token, _COMMAND_LIFE_S
        if (path := self._settings.token_file) is not None:
            # Read each time: the file is kept up to date by another program.
            if token := token_of_file(f"{_SECTION}TOKEN_FILE", path):
                return token, 0.0
            raise Unavailable(f"{_SECTION}TOKEN_FILE={path} is empty: nothing has put a token there yet")
        reply = self._of_provider()
        return reply.access_token, reply.expires_in

    def _of_provider(self) -> "_Reply":
        settings, setting = self._settings, f"{_SECTION}TOKEN_URL={self._settings.token_url}"
        secret = settings.client_secret.get_secret_value() if settings.client_secret else ""
        scope = {} if settings.scope is None else {"scope": settings.scope}
        try:
            reply = httpx.post(
                split_credentials(settings.token_url or "")[0],
                data={"grant_type": "client_credentials", **scope},
                auth=(settings.client_id or "", secret),
                timeout=settings.timeout_s,
            )
            reply.raise_for_status()
            return _Reply.model_validate_json(reply.content)
        except httpx.HTTPStatusError as error:
            raise _refusal(setting, error.response) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, ValidationError) as error:
            raise Misconfigured(f"{setting} gives no tokens; correct it") from error
        except httpx.HTTPError as error:
            raise Unavailable(f"{setting} does not answer: {gist_of(error)}") from error


class _Reply(BaseModel, hide_input_in_errors=True):
    access_token: str = Field(min_length=1)
    expires_in: float = Field(default=0.0, ge=0, allow_inf_nan=False)


def _refusal(setting: str, reply: httpx.Response) -> InfraError:
    said = f"{setting} answers {reply.status_code}: {without_credentials(reply, text_of(reply))[:200]}"
    if is_transient(reply.status_code):
        return Unavailable(said)
    return Misconfigured(f"{said}; check {_SECTION}CLIENT_ID, {_SECTION}CLIENT_SECRET and {_SECTION}SCOPE")


class ForAiokafka(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc] # aiokafka is untyped
    """Token provider for aiokafka and Faust, in any event loop."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        """Return a token. Raises NoToken."""
        return await asyncio.to_thread(self._tokens.get)

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions."""
        return dict(self._tokens.extensions)


class _Authenticator(aiokafka.conn.OAuthAuthenticator):  # type: ignore[misc] # aiokafka is untyped
    """Detects a refused token: aiokafka 0.14 takes any response for success, and fails later without a reason."""

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Return the next message; None once authenticated."""
        if payload:
            # The broker sent an error, and ends the exchange after this acknowledgement: RFC 7628, section 3.2.3.
            return b"\x01", True
        answer: tuple[bytes, bool] | None = await super().step(payload)
        return answer


aiokafka.conn.OAuthAuthenticator = _Authenticator
