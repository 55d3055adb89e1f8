"""Calls of an embedding service: retries, and further addresses of the same model."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import httpx
import numpy as np
import structlog
from pydantic import ValidationError

from freki.infra.http.credentials import split_credentials, without_credentials
from freki.infra.http.errors import gist_of, refusal, text_of
from freki.infra.models.remote.interfaces import INTERFACES, Answer
from freki.infra.settings import RemoteEmbedderSettings
from freki.schemas.arrays import Floats
from freki.schemas.backoff import backoff
from freki.schemas.errors import Busy, Misconfigured, Rejected, Unavailable

SECTION = "FREKI_MODELS__REMOTE"
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_SAME = 0.999
"""Least cosine of the vectors of one text by two addresses of the same model: other hardware rounds otherwise."""
_PROBE = "Die Zugspitze ist mit 2962 Metern der höchste Berg Deutschlands."

_log = structlog.get_logger(__name__)


class _OtherModelError(Misconfigured):
    """An address gives other vectors than the first one."""


class EmbeddingService:
    """An HTTP client of one model at one or several addresses.

    The first address is asked; where it does not answer after all attempts, the others are, in order. One that gives
    other vectors for the same text than the first did at the start is never used: what is searched would not be found.
    """

    def __init__(self, settings: RemoteEmbedderSettings) -> None:
        if settings.url is None:
            raise Misconfigured(f"{SECTION}__URL names no service, and FREKI_MODELS__EMBEDDER=remote needs one")
        self._settings = settings
        self._interface = INTERFACES[settings.interface]
        self._places = [split_credentials(url) for url in (settings.url, *settings.fallback_urls)]
        self._probe: Floats | None = None
        self._verified = {0}
        """Indexes of addresses that give the vectors of the first one."""
        self._turns = asyncio.Semaphore(settings.at_once)

    async def __aenter__(self) -> Self:
        self._client = httpx.AsyncClient(timeout=self._settings.timeout_s)
        try:
            answer = await self._ask_patiently(0, [_PROBE], is_query=False)
            self._probe = unit(answer.rows)[0]
            for place in range(1, len(self._places)):
                await self._check(place)
        except BaseException:
            await self._client.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @property
    def most_texts(self) -> int:
        """Maximum texts of a call."""
        return min(self._settings.batch_texts, self._interface.most_texts)

    async def ask(self, texts: Sequence[str], *, is_query: bool) -> Answer:
        """Return the vectors of at most `most_texts` texts, as the service gives them.

        Raises Unavailable if no address answers, Misconfigured for wrong settings, and Rejected for refused texts.
        """
        async with self._turns:
            failures: list[Unavailable] = []
            for place in range(len(self._places)):
                try:
                    await self._verify(place)
                    return await self._ask_patiently(place, texts, is_query=is_query)
                except Unavailable as error:
                    failures.append(error)
                except _OtherModelError as error:
                    _log.error("an embedding service is another model and is not used", reason=str(error))
            raise failures[0]

    async def _check(self, place: int) -> None:
        """Compare an address with the first one; one that does not answer is compared when it is needed."""
        try:
            await self._verify(place)
        except Unavailable as error:
            _log.warning("a further address of the embedding service does not answer", reason=error.gist)

    async def _verify(self, place: int) -> None:
        """Raise _OtherModelError if an address does not give the vectors of the first one."""
        if place in self._verified:
            return
        vector = unit((await self._ask_patiently(place, [_PROBE], is_query=False)).rows)[0]
        cosine = 0.0 if self._probe is None else float(vector @ self._probe)
        if cosine < _SAME:
            raise _OtherModelError(
                f"{SECTION}__FALLBACK_URLS: {self._places[place][0]} gives other vectors than {self._places[0][0]} "
                f"(cosine {cosine:.3f}), so what it embeds would not be found: name addresses of the same model"
            )
        self._verified.add(place)

    async def _ask_patiently(self, place: int, texts: Sequence[str], *, is_query: bool) -> Answer:
        attempts = self._settings.attempts
        for attempt in range(1, attempts + 1):
            try:
                return await self._ask(place, texts, is_query=is_query)
            except Unavailable as error:
                if attempt == attempts:
                    raise
                wait_s = backoff(attempt, first=_FIRST_WAIT_S, longest=_LONGEST_WAIT_S, jitter=random.random())  # noqa: S311
                if isinstance(error, Busy):
                    wait_s = min(max(wait_s, error.wait_s), self._settings.timeout_s)
                _log.info("an embedding service does not answer", reason=error.gist, attempt=attempt)
                await asyncio.sleep(wait_s)
        raise AssertionError

    async def _ask(self, place: int, texts: Sequence[str], *, is_query: bool) -> Answer:
        settings, (base, auth) = self._settings, self._places[place]
        url = f"{base.rstrip('/')}{self._interface.path}"
        body = self._interface.body(settings.model, texts, is_query)
        headers = {"Authorization": f"Bearer {settings.token.get_secret_value()}"} if settings.token else {}
        with _translated(url):
            response = await self._client.post(url, json=body, headers=headers, auth=auth or httpx.USE_CLIENT_DEFAULT)
            answer = self._interface.read(response.raise_for_status().content)
        if len(answer.rows) != len(texts):
            raise Rejected(f"{url} gave {len(answer.rows)} vectors for {len(texts)} texts")
        wrong = next((len(row) for row in answer.rows if len(row) != settings.dim), settings.dim)
        if wrong != settings.dim:
            raise Misconfigured(
                f"{url} gives vectors of {wrong} numbers, not {SECTION}__DIM={settings.dim}: correct it, and fill a "
                "new generation if the model is another"
            )
        return answer


def unit(rows: Sequence[Sequence[float]]) -> Floats:
    """Return vectors of length 1. Raises Rejected for one of zeros, which has no direction."""
    vectors = np.array(rows, np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(lengths > 0):
        raise Rejected(f"{SECTION}__URL gave a vector of zeros")
    found: Floats = vectors / lengths
    return found


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Translate errors, keeping the original as the cause."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        response = error.response
        message = f"{url} answered {response.status_code}: {without_credentials(response, text_of(response))[:200]}"
        raise refusal(response, message, hint=f"see the settings {SECTION}__…") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        # The error may quote a part of a password.
        raise Misconfigured(f"{SECTION}__URL is not a URL: correct it") from None
    except httpx.HTTPError as error:
        raise Unavailable(f"{url} does not answer: {type(error).__name__}", gist=gist_of(error)) from error
    except ValidationError as error:
        raise Misconfigured(
            f"{url} does not answer as FREKI_MODELS__REMOTE__INTERFACE says: {error.errors()[0]['msg']}"
        ) from error
