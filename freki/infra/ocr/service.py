"""Text of scans by an HTTP service that takes a file and answers with its text.

`POST {url}` with the scan as body and its media type, such as application/pdf; the answer is a document that Freki
reads: a PDF with text, or text/plain, text/markdown or text/html. Apache Tika is such a service, with
`url=http://tika:9998/tika` and `method=PUT`.
"""

import asyncio

import httpx

from freki.infra.http.credentials import split_credentials, without_credentials
from freki.infra.http.errors import gist_of, refusal
from freki.infra.ocr.limits import MOST_BYTES
from freki.infra.settings import OcrSettings
from freki.schemas.errors import Misconfigured, Rejected, Unavailable

_PREFERRED = "application/pdf, text/markdown, text/html;q=0.9, text/plain;q=0.8"

_REASON_BYTES = 65_536
"""Maximum size of what is read of a refusal."""


class ServiceOcr:
    """A recogniser with one request for each scan. Satisfies Ocr of `streams.ports`."""

    def __init__(self, settings: OcrSettings, *, max_bytes: int = MOST_BYTES) -> None:
        if settings.url is None:
            raise Misconfigured("FREKI_OCR__URL names no service")
        self._url, self._auth = split_credentials(settings.url)
        self._token = settings.token.get_secret_value() if settings.token else ""
        self._method = settings.method
        self._timeout_s = settings.timeout_s
        self._max_bytes = max_bytes
        self._turns = asyncio.Semaphore(settings.at_once)

    async def read(self, content: bytes, media_type: str) -> tuple[bytes, str]:
        """Return what the service makes of a scan, and the media type of that.

        Raises Unavailable if it does not answer, Misconfigured for a wrong address or key, and Rejected if it refuses
        the scan or takes too long.
        """
        headers = {"Content-Type": media_type or "application/octet-stream", "Accept": _PREFERRED}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        async with self._turns, httpx.AsyncClient(auth=self._auth, timeout=self._timeout_s) as client:
            # The timeout of httpx starts over with every piece of an answer.
            end = asyncio.get_running_loop().time() + self._timeout_s
            try:
                async with client.stream(self._method, self._url, content=content, headers=headers) as response:
                    async with asyncio.timeout_at(end):
                        answer = await self._read(response)
            except (httpx.ReadTimeout, TimeoutError) as error:
                raise Rejected(f"OCR took more than FREKI_OCR__TIMEOUT_S={self._timeout_s:g}") from error
            except (httpx.InvalidURL, httpx.UnsupportedProtocol):
                raise Misconfigured("FREKI_OCR__URL is not a URL: correct it") from None
            except httpx.HTTPError as error:
                raise Unavailable(f"FREKI_OCR__URL={self._url} does not answer", gist=gist_of(error)) from error
        if not response.is_success:
            said = without_credentials(response, answer.decode(errors="replace"))[:200]
            message = f"FREKI_OCR__URL={self._url} answered {response.status_code}: {said}"
            raise refusal(response, message, hint="see the settings FREKI_OCR__…")
        return answer, response.headers.get("Content-Type", "")

    async def _read(self, response: httpx.Response) -> bytes:
        raw = bytearray()
        async for piece in response.aiter_bytes():
            raw += piece
            if not response.is_success and len(raw) > _REASON_BYTES:
                break
            if len(raw) > self._max_bytes:
                raise Rejected(f"FREKI_OCR__URL={self._url} answered with more than {self._max_bytes} bytes")
        return bytes(raw)
