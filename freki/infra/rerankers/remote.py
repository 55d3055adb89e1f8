"""A reranker that calls a ranking service by one of two interfaces.

tei: that of Hugging Face's text-embeddings-inference. `POST {url}/rerank {"query", "texts", "raw_scores", "truncate"}`
answers `[{"index", "score"}]`.
cohere: that of Cohere, Jina, vLLM, llama.cpp, OpenVINO and others, whose URL ends with a version, such as
https://api.cohere.com/v2. `POST {url}/rerank {"model", "query", "documents", "top_n"}` answers
`{"results": [{"index", "relevance_score"}]}`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from freki.infra.rerankers.service import RankingService, ServiceReranker
from freki.infra.settings import RemoteRerankerSettings
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.index import RerankPair

CALL_TEXTS = 32
"""Maximum texts per call: the default limit of text-embeddings-inference."""


class _Scored(BaseModel):
    index: int = Field(ge=0)
    score: float = Field(allow_inf_nan=False)


class _Result(BaseModel):
    index: int = Field(ge=0)
    relevance_score: float = Field(allow_inf_nan=False)


class _Results(BaseModel, hide_input_in_errors=True):
    results: list[_Result]


_SCORES = TypeAdapter(list[_Scored], config=ConfigDict(hide_input_in_errors=True))


class RemoteReranker(ServiceReranker):
    """The ranking service of the settings; calls run concurrently."""

    name = "remote"

    def __init__(self, settings: RemoteRerankerSettings) -> None:
        if settings.url is None:
            raise Misconfigured("FREKI_REMOTE_RERANKER__URL names no service")
        if settings.interface == "cohere" and not settings.model:
            raise Misconfigured("FREKI_REMOTE_RERANKER__MODEL names no model, which this interface requires")
        self._settings = settings
        url = f"{settings.url.rstrip('/')}/rerank"
        service = RankingService(url, section="FREKI_REMOTE_RERANKER", timeout_s=settings.timeout_s)
        super().__init__(service, most=CALL_TEXTS)

    async def _ask(self, query: str, pairs: Sequence[RerankPair]) -> Mapping[int, float]:
        token = self._settings.token
        texts = [pair.text for pair in pairs]
        with self._service.translated():
            raw = await self._service.post(self._body(query, texts), token=token.get_secret_value() if token else "")
            found = _read(raw, self._settings.interface)
        return self._service.complete({place: self._in_range(score) for place, score in found.items()}, len(pairs))

    def _body(self, query: str, texts: list[str]) -> Mapping[str, Any]:
        if self._settings.interface == "cohere":
            return {"model": self._settings.model, "query": query, "documents": texts, "top_n": len(texts)}
        return {"query": query, "texts": texts, "raw_scores": self._settings.raw_scores, "truncate": True}

    def _in_range(self, score: float) -> float:
        if self._settings.raw_scores:
            return (1 + math.tanh(score / 2)) / 2
        if not 0 <= score <= 1:
            raise Rejected(
                f"{self._service.url} gives {score:g}, which is not in 0..1: if its scores are log-odds, set "
                "FREKI_REMOTE_RERANKER__RAW_SCORES=true"
            )
        return score


def _read(raw: bytes, interface: str) -> dict[int, float]:
    if interface == "cohere":
        return {each.index: each.relevance_score for each in _Results.model_validate_json(raw).results}
    return {each.index: each.score for each in _SCORES.validate_json(raw)}
