"""A cross-encoder in this process, which encodes query and text together."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import accumulate, takewhile
from typing import Self

import numpy as np

from freki.infra.models.descriptions import ModelKind
from freki.infra.models.pace import Pace
from freki.infra.models.packing import pack
from freki.infra.models.runner import Runner
from freki.infra.models.session import Model
from freki.infra.models.tokenizer import Tokens
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured
from freki.schemas.index import RerankPair

# Long enough to estimate the throughput of real batches, short enough for the start of a worker.
_WARM_UP = [
    RerankPair(
        query="Wie hoch ist die Zugspitze?",
        heading="",
        text=f"Die Zugspitze ist der höchste Berg Deutschlands ({place}). " * 10,
    )
    for place in range(8)
]


class OnnxReranker:
    """The cross-encoder of the settings; opening it makes the model if it is not in the cache.

    Keeps a time budget by its measured throughput: it does not start pairs that it estimates not to finish.
    """

    name = "local"

    def __init__(
        self,
        settings: ModelSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        calls: Calls | None = None,
    ) -> None:
        if settings.cross_encoder is None:
            raise Misconfigured("FREKI_MODELS__RERANKER names no model")
        self._batch_tokens = settings.batch_tokens
        self._clock = clock
        self._calls = calls or Calls()
        self._pace = Pace()
        self._runner = Runner(settings, settings.cross_encoder, ModelKind.RERANKER)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(self._runner)
            await self.score(_WARM_UP, budget_s=None)
            opened.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.__aexit__(*error)

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
        encodings = await self._runner.call(self.model.encode_pairs, [(pair.query, pair.text) for pair in pairs])
        lengths = list(map(len, encodings))
        scores: list[float | None] = []
        while taken := self._affordable(lengths[len(scores) :], deadline):
            started = self._clock()
            places = slice(len(scores), len(scores) + taken)
            scores += map(float, sigmoid(await self._runner.call(self._logits, encodings[places])))
            self._pace.learn(sum(lengths[places]), self._clock() - started)
        tokens, seconds = sum(lengths[: len(scores)]), self._clock() - began
        self._calls.computed("rerank", self.model.manifest.name, tokens=tokens, seconds=seconds)
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

    def _logits(self, encodings: Sequence[Tokens]) -> Floats:
        logits = np.empty(len(encodings), np.float32)
        for batch in pack(list(map(len, encodings)), budget=self._batch_tokens):
            logits[batch] = self.model.logits([encodings[index] for index in batch])
        return logits


def sigmoid(logits: Floats | np.float32) -> Floats:
    """Return the logistic function of logits, 0..1."""
    # By tanh, which does not overflow.
    scores: Floats = np.float32(0.5) * (1 + np.tanh(logits / 2))
    return scores
