"""Scores how well texts answer a query by asking a ranking service, such as Hugging Face's text-embeddings-inference.

`POST {url}/rerank {"query", "texts", "raw_scores": false, "truncate": true}` answers `[{"index", "score"}]`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import httpx
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from freki.infra.errors import Misconfigured, Rejected, Unavailable
from freki.infra.http import OF_SETTINGS, may_pass
from freki.infra.settings import RemoteRerankerSettings
from freki.schemas.index import RerankPair

CALL_TEXTS = 32
"""Most texts a call: what text-embeddings-inference takes unless told otherwise."""


class _Scored(BaseModel):
    index: int = Field(ge=0)
    score: float = Field(ge=0, le=1)


_REPLY = TypeAdapter(list[_Scored])


class RemoteReranker:
    """The ranking service that the settings name; calls run side by side."""

    name = "remote"

    def __init__(self, settings: RemoteRerankerSettings) -> None:
        if settings.url is None:
            raise Misconfigured("FREKI_REMOTE_RERANKER__URL names no service")
        token = settings.token
        self._url = f"{settings.url.rstrip('/')}/rerank"
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token.get_secret_value()}"} if token else {},
            timeout=settings.timeout_s,
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        """Score pairs, 0..1; None for those whose call did not return within the budget."""
        scores: dict[int, float] = {}
        try:
            async with asyncio.timeout(budget_s), asyncio.TaskGroup() as calls:
                for query, places in _calls(pairs):
                    calls.create_task(self._ask(query, {place: pairs[place].text for place in places}, scores))
        except TimeoutError:
            pass  # what came in time counts
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return [scores.get(place) for place in range(len(pairs))]

    async def _ask(self, query: str, texts: Mapping[int, str], scores: dict[int, float]) -> None:
        """Add the scores of the texts under their places."""
        body = {"query": query, "texts": list(texts.values()), "raw_scores": False, "truncate": True}
        with _translated(self._url):
            response = await self._client.post(self._url, json=body)
            reply = {each.index: each.score for each in _REPLY.validate_json(response.raise_for_status().content)}
        if reply.keys() != set(range(len(texts))):
            raise Rejected(f"{self._url} scored {len(reply)} of {len(texts)} texts")
        scores.update((place, reply[index]) for index, place in enumerate(texts))


def _calls(pairs: Sequence[RerankPair]) -> Iterator[tuple[str, list[int]]]:
    """Group the places of pairs by query, as many as a call may hold."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, pair in enumerate(pairs):
        places[pair.query].append(place)
    for query, of_query in places.items():
        for start in range(0, len(of_query), CALL_TEXTS):
            yield query, of_query[start : start + CALL_TEXTS]


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Raise ours for theirs, keeping theirs as the cause."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        message = f"{url} answered {status}: {error.response.text[:200]}"
        if may_pass(status):
            raise Unavailable(message) from error
        if status in OF_SETTINGS:
            raise Misconfigured(f"{message}; see FREKI_REMOTE_RERANKER__URL and __TOKEN") from error
        raise Rejected(message) from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise Misconfigured(f"FREKI_REMOTE_RERANKER__URL={url} is not a URL: {error}") from error
    except httpx.HTTPError as error:
        raise Unavailable(f"{url} does not answer: {type(error).__name__} {error}") from error
    except ValidationError as error:
        raise Rejected(f"{url} does not answer as a ranking service: {error}") from error
