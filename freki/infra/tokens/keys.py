"""The public keys of an issuer: a JSON Web Key Set (RFC 7517), by URL or from a file."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import structlog
from jwt import PyJWK, PyJWTError

from freki.infra.http.errors import OF_SETTINGS, gist_of
from freki.infra.settings import AuthSettings
from freki.schemas.errors import InfraError, Misconfigured, Unavailable

THROTTLE_S = 10.0
"""Least time between two readings that unknown keys cause, in seconds: anybody can name keys that do not exist."""
MAX_BYTES = 1 << 20
"""Largest key set, in bytes."""
_KINDS = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Kind of key and curve of each algorithm. A symmetric key (`oct`) fits none."""

_log = structlog.get_logger(__name__)


class KeySet:
    """Keys of one issuer, kept while their place does not answer.

    A key that is not known is looked for once in `THROTTLE_S`; `follow` reads all keys again at intervals.
    """

    def __init__(self, settings: AuthSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Raise Misconfigured where the settings name no keys."""
        if settings.jwks is None:
            raise Misconfigured("FREKI_AUTH__JWKS is not set: name the URL or file of the issuer's public keys")
        self._place = settings.jwks
        self._algorithms = settings.algorithms
        self._reload_s = settings.jwks_reload_s
        self._timeout_s = settings.jwks_timeout_s
        self._clock = clock
        self._http: httpx.AsyncClient | None = None
        self._keys: Mapping[str, Sequence[PyJWK]] = {}
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Read the keys. Raises Unavailable or Misconfigured."""
        if "://" in self._place:
            self._http = httpx.AsyncClient(timeout=self._timeout_s, follow_redirects=False)
        try:
            await self._read()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self._close()

    async def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        """Return the keys of an id for an algorithm; without an id the only one of the set, if there is one."""
        found = self._known(key_id, algorithm)
        if found or key_id is None or key_id in self._keys:
            return found
        async with self._reading:
            # Others may have read while this one waited.
            if not (found := self._known(key_id, algorithm)) and self._clock() - self._read_at >= THROTTLE_S:
                await self._read_or_keep()
                found = self._known(key_id, algorithm)
        return found

    async def follow(self) -> None:
        """Read the keys again at intervals."""
        while True:
            await asyncio.sleep(self._reload_s)
            async with self._reading:
                await self._read_or_keep()

    async def _close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    def _known(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        if key_id is None:
            every = [each for keys in self._keys.values() for each in keys]
            named = [each for each in every if each.algorithm_name == algorithm]
            return named if len(named) == 1 else []
        return [each for each in self._keys.get(key_id, ()) if each.algorithm_name == algorithm]

    async def _read_or_keep(self) -> None:
        try:
            await self._read()
        except InfraError as error:
            _log.warning("the keys of the issuer cannot be read; the known ones stay", error=str(error))

    async def _read(self) -> None:
        self._read_at = self._clock()
        text = await asyncio.to_thread(self._of_file) if self._http is None else await self._of_url(self._http)
        self._keys = self._parsed(text)

    async def _of_url(self, http: httpx.AsyncClient) -> bytes:
        try:
            async with http.stream("GET", self._place) as reply:
                if reply.status_code != httpx.codes.OK:
                    problem = f"FREKI_AUTH__JWKS={self._place} answers {reply.status_code}"
                    wrong = reply.status_code in OF_SETTINGS or reply.is_redirect
                    raise (Misconfigured(f"{problem}; correct it") if wrong else Unavailable(problem))
                text = b""
                async for part in reply.aiter_bytes():
                    text += part
                    if len(text) > MAX_BYTES:
                        raise Misconfigured(
                            f"FREKI_AUTH__JWKS={self._place} is no key set: more than {MAX_BYTES} bytes"
                        )
                return text
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Misconfigured(f"FREKI_AUTH__JWKS={self._place} is no address; correct it") from error
        except httpx.HTTPError as error:
            raise Unavailable(f"FREKI_AUTH__JWKS={self._place} does not answer: {gist_of(error)}") from error

    def _of_file(self) -> bytes:
        try:
            return Path(self._place).expanduser().read_bytes()
        except OSError as error:
            raise Misconfigured(f"FREKI_AUTH__JWKS={self._place} cannot be read: {error.strerror}") from error

    def _parsed(self, text: bytes) -> Mapping[str, Sequence[PyJWK]]:
        """Return the usable keys by id. Raises Misconfigured for what is no key set."""
        try:
            entries = [*json.loads(text)["keys"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Misconfigured(
                f'FREKI_AUTH__JWKS={self._place} holds no JSON Web Key Set, {{"keys": […]}}; correct it'
            ) from error
        keys: dict[str, list[PyJWK]] = {}
        for entry in entries:
            usable = self._usable(entry) if isinstance(entry, dict) else []
            if usable:
                keys.setdefault(str(entry.get("kid", "")), []).extend(usable)
            else:
                _log.warning("a key of the issuer is not used: it fits no algorithm of FREKI_AUTH__ALGORITHMS")
        if not keys:
            # Not an error: an issuer may have taken back all of its keys.
            _log.error("the issuer has no usable key: every query is refused", place=self._place)
        return keys

    def _usable(self, entry: dict[str, Any]) -> list[PyJWK]:
        """Return a key once for each algorithm that it may be used with."""
        made = []
        for algorithm in self._algorithms:
            kind, curve = _KINDS[algorithm]
            fits = entry.get("kty") == kind and curve in (None, entry.get("crv"))
            if fits and entry.get("alg") in (None, algorithm) and entry.get("use") in (None, "sig"):
                try:
                    key = PyJWK(entry, algorithm=algorithm)
                except (PyJWTError, ValueError, TypeError):
                    continue
                if key.Algorithm.check_key_length(key.key) is None and hasattr(key.key, "verify"):
                    made.append(key)
        return made
