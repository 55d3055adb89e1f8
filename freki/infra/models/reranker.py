"""Scores how well texts answer a query, with an ONNX cross-encoder."""

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import accumulate, takewhile
from types import TracebackType
from typing import Self

import numpy as np
from tokenizers import Encoding

from freki.infra.errors import Misconfigured
from freki.infra.models.pace import Pace
from freki.infra.models.packing import pack
from freki.infra.models.progress import Progress, unseen
from freki.infra.models.registry import ModelKind
from freki.infra.models.session import Floats, Model, Runner
from freki.infra.settings import ModelSettings

# Long enough to tell the pace of real batches, short enough not to be noticed when a worker starts.
_WARM_UP = [("Wie hoch ist die Zugspitze?", "Die Zugspitze ist der höchste Berg Deutschlands. " * 10)] * 8


class OnnxCrossEncoder:
    """The cross-encoder that the settings name; opening it makes the model if it is not in the cache.

    Keeps to a time budget by its own pace: what it estimates not to finish it does not begin.
    """

    name = "cross-encoder"

    def __init__(
        self, settings: ModelSettings, progress: Progress = unseen, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if settings.reranker is None:
            raise Misconfigured("FREKI_MODELS__RERANKER names no cross-encoder")
        self._batch_tokens = settings.batch_tokens
        self._clock = clock
        self._pace = Pace()
        self._opened = AsyncExitStack()
        self._runner = Runner(settings, settings.reranker, ModelKind.RERANKER, progress)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(self._runner)
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
        """How fast it has been of late."""
        return self._pace.tokens_per_s

    async def score(self, pairs: Sequence[tuple[str, str]], *, budget_s: float | None) -> list[float | None]:
        """Score (query, text) pairs, first ones first, 0..1; None for those that did not fit the budget."""
        if budget_s is not None and budget_s <= 0:
            return [None] * len(pairs)
        deadline = None if budget_s is None else self._clock() + budget_s
        encodings = await self._runner.call(self.model.encode_pairs, pairs)
        scores: list[float | None] = []
        while taken := self._affordable(encodings[len(scores) :], deadline):
            scores += await self._timed(encodings[len(scores) : len(scores) + taken])
        return scores + [None] * (len(pairs) - len(scores))

    def _affordable(self, encodings: Sequence[Encoding], deadline: float | None) -> int:
        """Count the first pairs that can be scored by the deadline; at most a batch at a time, to see how it goes."""
        if deadline is None or not encodings:
            return len(encodings)
        left = (deadline - self._clock()) * self._pace.tokens_per_s
        tokens = min(left, max(self._batch_tokens, len(encodings[0])))
        return sum(1 for _ in takewhile(lambda used: used <= tokens, accumulate(map(len, encodings))))

    async def _timed(self, encodings: Sequence[Encoding]) -> list[float]:
        started = self._clock()
        logits = np.empty(len(encodings), np.float32)
        for batch in pack([len(encoding) for encoding in encodings], budget=self._batch_tokens):
            logits[batch] = await self._runner.call(self.model.logits, [encodings[index] for index in batch])
        self._pace.learn(sum(map(len, encodings)), self._clock() - started)
        return [float(score) for score in sigmoid(logits)]


def sigmoid(logits: Floats | np.float32) -> Floats:
    """Map any numbers to 0..1."""
    # Written with tanh, which does not overflow.
    scores: Floats = np.float32(0.5) * (1 + np.tanh(logits / 2))
    return scores
