"""A client of schema registries with Confluent's REST interface: Confluent, Karapace, Redpanda, Apicurio.

Codecs only read from memory (`id_of`, `schema_of`), so that they stay pure. Memory is filled by `announce` once at the
start, and by `prepare` before each batch is decoded, which fetches new schemas only. The caller retries, since it does
so for whole batches anyway.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from freki.infra.http.credentials import without_credentials
from freki.infra.http.errors import is_transient
from freki.infra.settings import RegistrySettings
from freki.schemas.avro import packaged_contracts, schema_id_of
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable

T = TypeVar("T")

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_HEADERS = {"Accept": f"{_MEDIA_TYPE}, application/json", "Content-Type": _MEDIA_TYPE}
_NOT_THERE = frozenset({40401, 40402, 40403})
"""Error codes of an unknown subject, version or schema; a 404 without one comes from another kind of server."""
_FAILURES_OF_AN_ID = 7
"""Consecutive transient failures after which an id counts as unknown: one attempt less than a delivery makes."""
_NO_ACCESS = frozenset({httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN})


class UnknownToRegistry(Rejected):
    """The registry has no such subject, version or schema."""


class _Registered(BaseModel, hide_input_in_errors=True):
    id: int


class _Schema(BaseModel, hide_input_in_errors=True):
    text: str = Field(alias="schema")


class _Version(_Registered, _Schema):
    pass


class _Refusal(BaseModel):
    error_code: int = 0
    message: str = ""


_REGISTERED = TypeAdapter(_Registered)
_SCHEMA = TypeAdapter(_Schema)
_VERSION = TypeAdapter(_Version)
_VERSIONS = TypeAdapter(list[int], config=ConfigDict(hide_input_in_errors=True))
_SUBJECTS = TypeAdapter(list[str], config=ConfigDict(hide_input_in_errors=True))


class RegistryClient:
    """Registers the contracts of Freki, and reads other registered schemas, each once."""

    _client: httpx.AsyncClient

    def __init__(self, settings: RegistrySettings) -> None:
        if settings.url is None:
            raise Misconfigured("FREKI_REGISTRY__URL is not set")
        if "@" in settings.url:
            raise Misconfigured("FREKI_REGISTRY__URL: name and password go to FREKI_REGISTRY__USERNAME and __PASSWORD")
        self._url = settings.url
        self._timeout_s = settings.timeout_s
        self._auth = _auth(settings)
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, str] = {}
        self._failures: Counter[int] = Counter()

    async def __aenter__(self) -> Self:
        """Create the HTTP client; no request is sent yet."""
        with _translated(self._url):
            self._client = httpx.AsyncClient(
                base_url=self._url, auth=self._auth, timeout=self._timeout_s, headers=_HEADERS
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the HTTP client."""
        await self._client.aclose()

    async def announce(self, topics: Mapping[str, type]) -> None:
        """Register the current contract of each topic's record, and read all earlier versions.

        The subject of a topic is `<topic>-value`. A registered contract is only looked up, so read access suffices
        then. Raises Unavailable, or Misconfigured where the registry refuses.
        """
        for topic, record in topics.items():
            contract = packaged_contracts().current(record.__name__)
            subject = f"/subjects/{quote(f'{topic}-value', safe='')}"
            self._ids[record.__name__] = await self._registered(subject, contract.text)
            for version in await self._ask("GET", f"{subject}/versions", _VERSIONS):
                registered = await self._ask("GET", f"{subject}/versions/{version}", _VERSION)
                self._schemas[registered.id] = registered.text

    async def prepare(self, values: Iterable[bytes | None]) -> None:
        """Fetch the schemas that records refer to and that are not in memory.

        An id that the registry does not know, or refuses while it answers for others, stays unknown: only decoding of
        its records fails. Raises Unavailable where the registry is down, Misconfigured where another server answers.
        """
        named = {schema_id_of(value) for value in values if value is not None}
        for schema_id in sorted(schema_id for schema_id in named if schema_id is not None):
            if schema_id not in self._schemas:
                await self._read(schema_id)

    def id_of(self, record: str) -> int:
        """Return the id of the current contract of an announced record."""
        return self._ids[record]

    def schema_of(self, schema_id: int) -> str | None:
        """Return a schema as JSON; None where it is not in memory."""
        return self._schemas.get(schema_id)

    async def _registered(self, subject: str, schema: str) -> int:
        try:
            found = await self._ask("POST", subject, _REGISTERED, schema)
        except UnknownToRegistry:
            found = await self._ask("POST", f"{subject}/versions", _REGISTERED, schema)
        return found.id

    async def _read(self, schema_id: int) -> None:
        try:
            found = await self._ask("GET", f"/schemas/ids/{schema_id}", _SCHEMA)
        except UnknownToRegistry:
            return
        except Unavailable:
            self._failures[schema_id] += 1
            if self._failures[schema_id] < _FAILURES_OF_AN_ID:
                raise
            await self._probe()
        except Rejected:
            await self._probe()
        else:
            self._failures.pop(schema_id, None)
            self._schemas[schema_id] = found.text

    async def _probe(self) -> None:
        """Raise unless the registry answers a request that any registry can answer."""
        try:
            known = next(iter(self._schemas), None)
            if known is None:
                await self._ask("GET", "/subjects", _SUBJECTS)
            else:
                await self._ask("GET", f"/schemas/ids/{known}", _SCHEMA)
        except UnknownToRegistry as error:
            raise Misconfigured(f"{error}, but it was read from there: check FREKI_REGISTRY__URL") from error

    async def _ask(self, method: str, path: str, answer: TypeAdapter[T], schema: str | None = None) -> T:
        with _translated(self._url):
            response = await self._client.request(method, path, json=None if schema is None else {"schema": schema})
            if response.is_success:
                return answer.validate_json(response.content)
            raise _refusal(response)


def _auth(settings: RegistrySettings) -> httpx.BasicAuth | None:
    if settings.username is None and settings.password is None:
        return None
    if settings.username is None or settings.password is None:
        raise Misconfigured("set both FREKI_REGISTRY__USERNAME and FREKI_REGISTRY__PASSWORD, or neither")
    return httpx.BasicAuth(settings.username, settings.password.get_secret_value())


def _refusal(response: httpx.Response) -> InfraError:
    """Return the error for a response that is not a success."""
    asked = f"{response.request.method} {response.request.url.path}"
    try:
        refusal = _Refusal.model_validate_json(response.content)
    except ValidationError:
        refusal = _Refusal()
    said = f"{asked}: {response.status_code} {without_credentials(response, refusal.message)}".strip()
    if refusal.error_code in _NOT_THERE:
        return UnknownToRegistry(said)
    if is_transient(response.status_code):
        return Unavailable(said)
    if response.status_code in _NO_ACCESS:
        return Misconfigured(f"{said}: check FREKI_REGISTRY__USERNAME and __PASSWORD, and what that account may do")
    if response.status_code == httpx.codes.CONFLICT:
        return Misconfigured(
            f"{said}: the subject's compatibility rule refuses the contract; use another topic version"
        )
    return Misconfigured(f"{said}: is FREKI_REGISTRY__URL the base URL of a schema registry?")


@contextmanager
def _translated(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.InvalidURL:
        # The error may quote a part of a password.
        raise Misconfigured("FREKI_REGISTRY__URL is not a URL; correct it") from None
    except (httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
        raise Misconfigured(f"FREKI_REGISTRY__URL is {url!r}: {error}") from error
    except ValidationError as error:
        raise Misconfigured(f"{url} does not answer like a schema registry: check FREKI_REGISTRY__URL") from error
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise Unavailable(f"the schema registry at {url} cannot be reached: {error!r}") from error
