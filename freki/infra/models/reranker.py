"""The reranker on a model in this process."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import accumulate, takewhile
from types import TracebackType
from typing import Self

import numpy as np

from freki.infra.models.descriptions import Architecture, ModelKind
from freki.infra.models.interaction import Matching, Remembered, Route, SecondOpinion, is_english, read_piece_weights
from freki.infra.models.pace import Pace
from freki.infra.models.packing import pack
from freki.infra.models.progress import Progress, unseen
from freki.infra.models.registry import companion_of
from freki.infra.models.runner import Runner
from freki.infra.models.session import Model
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured
from freki.schemas.index import RerankPair

MIB = 1 << 20
# Long enough to estimate the throughput of real batches, short enough for the start of a worker.
_WARM_UP = [
    RerankPair(
        query="Wie hoch ist die Zugspitze?",
        query_language="de",
        heading="",
        text=f"Die Zugspitze ist der höchste Berg Deutschlands ({place}). " * 10,
        language="de",
        fused=0.5,
        lexical=0.5,
        cosine=0.8,
    )
    for place in range(8)
]


class OnnxReranker:
    """The reranker of the settings; opening it makes the model if it is not in the cache.

    Keeps a time budget by its measured throughput: it does not start pairs that it estimates not to finish.
    """

    name = "local"

    def __init__(
        self,
        settings: ModelSettings,
        progress: Progress = unseen,
        *,
        clock: Callable[[], float] = time.monotonic,
        calls: Calls | None = None,
    ) -> None:
        if settings.reranker is None:
            raise Misconfigured("FREKI_MODELS__RERANKER names no model")
        self._batch_tokens = settings.batch_tokens
        self._clock = clock
        self._calls = calls or Calls()
        self._pace = Pace()
        self._opened = AsyncExitStack()
        self._runner = Runner(settings, settings.reranker, ModelKind.RERANKER, progress)
        companion = companion_of(settings.reranker)
        self._second = Runner(settings, companion, ModelKind.EMBEDDER, progress) if companion else None
        # One cache each: outputs of the first model are a hundred times larger and would evict those of the second.
        most_bytes = settings.rerank_cache_mb * MIB
        self._remembered = {kind: Remembered(most_bytes, self._calls) for kind in ModelKind}
        self._piece_weights = read_piece_weights() if companion else np.empty(0, np.float32)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(self._runner)
            if self._second is not None:
                await opened.enter_async_context(self._second)
            await self.score(_WARM_UP, budget_s=None)
            self._opened = opened.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    @property
    def model(self) -> Model:
        """The open model."""
        return self._runner.model

    @property
    def tokens_per_s(self) -> float:
        """Estimated recent throughput in tokens per second."""
        return self._pace.tokens_per_s

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        """Return the score of each pair in order, 0..1; None for those that did not fit the budget."""
        if not pairs or (budget_s is not None and budget_s <= 0):
            return [None] * len(pairs)
        began = self._clock()
        deadline = None if budget_s is None else began + budget_s
        second = self._second if self._second is not None and is_english(pairs) else None
        runner = second or self._runner
        route = await runner.call(self._route, runner.model, pairs)
        scores: list[float | None] = []
        while taken := self._affordable(route.lengths[len(scores) :], deadline):
            started = self._clock()
            places = range(len(scores), len(scores) + taken)
            scores += map(float, sigmoid(await runner.call(route.score, places)))
            self._pace.learn(sum(route.lengths[place] for place in places), self._clock() - started)
        tokens, seconds = sum(route.lengths[: len(scores)]), self._clock() - began
        self._calls.computed("rerank", runner.model.manifest.name, tokens=tokens, seconds=seconds)
        return scores + [None] * (len(pairs) - len(scores))

    def _affordable(self, lengths: Sequence[int], deadline: float | None) -> int:
        """Return the number of pairs to score next: at most a batch, and half of those that fit until the deadline.

        A delay of the first half is known before the second begins, and in the end only one pair is at risk.
        """
        room = math.inf if deadline is None else (deadline - self._clock()) * self._pace.tokens_per_s
        if not lengths or lengths[0] > room:
            return 0
        tokens = max(lengths[0], min(self._batch_tokens, room / 2))
        return sum(1 for _ in takewhile(lambda used: used <= tokens, accumulate(lengths)))

    def _route(self, model: Model, pairs: Sequence[RerankPair]) -> Route:
        remembered = self._remembered[model.manifest.kind]
        if model.manifest.kind is ModelKind.EMBEDDER:
            return SecondOpinion(model, pairs, remembered, batch_tokens=self._batch_tokens)
        if model.manifest.architecture is Architecture.MATCHING:
            return Matching(model, self._piece_weights, pairs, remembered, batch_tokens=self._batch_tokens)
        return CrossEncoder(model, pairs, batch_tokens=self._batch_tokens)


class CrossEncoder:
    """Route for a cross-encoder, which encodes query and text together."""

    def __init__(self, model: Model, pairs: Sequence[RerankPair], *, batch_tokens: int) -> None:
        self._model = model
        self._batch_tokens = batch_tokens
        self._encodings = model.encode_pairs([(pair.query, pair.text) for pair in pairs])
        self.lengths = list(map(len, self._encodings))

    def score(self, places: range) -> Floats:
        """Score the pairs in a range; return logits, (pairs,)."""
        encodings = [self._encodings[place] for place in places]
        logits = np.empty(len(encodings), np.float32)
        for batch in pack(list(map(len, encodings)), budget=self._batch_tokens):
            logits[batch] = self._model.logits([encodings[index] for index in batch])
        return logits


def sigmoid(logits: Floats | np.float32) -> Floats:
    """Return the logistic function of logits, 0..1."""
    # By tanh, which does not overflow.
    scores: Floats = np.float32(0.5) * (1 + np.tanh(logits / 2))
    return scores
