"""Common parts of rerankers that call a ranking service: batches, time budget and errors."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import httpx
from pydantic import ValidationError

from freki.infra.http.credentials import split_credentials, without_credentials
from freki.infra.http.errors import gist_of, refusal, text_of
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.schemas.index import RerankPair

Ask = Callable[[str, Sequence[RerankPair]], Awaitable[Mapping[int, float]]]
"""Returns the scores of pairs of one query, by index."""


class RankingService:
    """An HTTP client of one URL; errors are translated and name the section of the settings at fault."""

    def __init__(self, url: str, *, section: str, timeout_s: float) -> None:
        self.url, auth = split_credentials(url)
        self._section = section
        self._client = httpx.AsyncClient(auth=auth, timeout=timeout_s)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors, keeping the original as the cause."""
        try:
            yield
        except httpx.HTTPStatusError as error:
            raise self._refused(error.response) from error
        except httpx.InvalidURL:
            # The error may quote a part of a password.
            raise Misconfigured(
                f"{self._section}__URL is not a URL; in a name or password, / ? # and @ are percent-encoded"
            ) from None
        except httpx.UnsupportedProtocol as error:
            raise Misconfigured(f"{self._section}__URL={self.url} is not a URL: {error}") from error
        except httpx.HTTPError as error:
            message = f"{self.url} does not answer: {type(error).__name__} {error}"
            raise Unavailable(message, gist=gist_of(error)) from error
        except ValidationError as error:
            raise Rejected(f"{self.url} does not answer as a ranking service: {error}") from error

    async def post(self, body: Mapping[str, Any], *, token: str) -> bytes:
        """Send a request; to be called within `translated`."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = await self._client.post(self.url, json=body, headers=headers)
        return response.raise_for_status().content

    def complete(self, scores: Mapping[int, float], count: int) -> Mapping[int, float]:
        """Return the scores. Raises Rejected unless there is exactly one for each of `count` texts."""
        if scores.keys() != set(range(count)):
            raise Rejected(f"{self.url} scored {len(scores)} of {count} texts")
        return scores

    def _refused(self, response: httpx.Response) -> InfraError:
        message = (
            f"{self.url} answered {response.status_code}: {without_credentials(response, text_of(response))[:200]}"
        )
        return refusal(response, message, hint=f"see the settings {self._section}__…")


class ServiceReranker:
    """A reranker by a ranking service; subclasses define the request and the maximum texts per call."""

    def __init__(self, service: RankingService, *, most: int) -> None:
        self._service = service
        self._most = most

    async def __aenter__(self) -> Self:
        await self._service.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._service.__aexit__(*error)

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        """Return the score of each pair, 0..1; None for those whose call exceeded the budget."""
        return await _score_in_calls(pairs, self._ask, most=self._most, budget_s=budget_s)

    async def _ask(self, query: str, pairs: Sequence[RerankPair]) -> Mapping[int, float]:
        raise NotImplementedError


async def _score_in_calls(
    pairs: Sequence[RerankPair], ask: Ask, *, most: int, budget_s: float | None
) -> list[float | None]:
    """Score pairs by concurrent calls of one query and at most `most` texts; None where a call exceeded the budget."""
    scores: dict[int, float] = {}

    async def call(places: Sequence[int]) -> None:
        found = await ask(pairs[places[0]].query, [pairs[place] for place in places])
        scores.update((places[index], score) for index, score in found.items())

    try:
        async with asyncio.timeout(budget_s), asyncio.TaskGroup() as calls:
            for places in _calls(pairs, most):
                calls.create_task(call(places))
    except TimeoutError:
        pass  # scores received in time count
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [scores.get(place) for place in range(len(pairs))]


def _calls(pairs: Sequence[RerankPair], most: int) -> Iterator[list[int]]:
    """Yield the indices of pairs of one query, at most `most` per call."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, pair in enumerate(pairs):
        places[pair.query].append(place)
    for of_query in places.values():
        for start in range(0, len(of_query), most):
            yield of_query[start : start + most]
