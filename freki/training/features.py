"""What the reranker adds up for a pair, part by part, as the code that serves computes it."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.interaction import Calibration, Matching, Remembered, Route, SecondOpinion
from freki.infra.models.progress import unseen
from freki.infra.models.registry import MODELS
from freki.infra.models.session import Model, open_model
from freki.infra.settings import ModelSettings
from freki.schemas.arrays import Floats
from freki.schemas.index import RerankPair
from freki.schemas.names import record
from freki.training.dataset import Document
from freki.training.encoders import BATCH_TOKENS
from freki.training.mining import Candidates

RERANKER = "freki-reranker-1"
_MAX_CHARS = 1500
"""Of a text: more than is read of it."""


def served(settings: ModelSettings) -> ModelSettings:
    """Choose our own reranker where no other one is chosen."""
    return settings if settings.reranker else settings.model_copy(update={"reranker": RERANKER})


def open_sums(settings: ModelSettings, piece_weights: Floats) -> tuple["Sum", "Sum"]:
    """Open the routes of our own reranker: that for English and that for all other languages.

    Raises as `obtain` does.
    """
    companion = MODELS[RERANKER].companion or ""
    second = open_model(obtain(settings, companion, ModelKind.EMBEDDER, unseen), threads=settings.threads)
    first = open_model(obtain(settings, RERANKER, ModelKind.RERANKER, unseen), threads=settings.threads)
    return second_opinion(second), matching(first, piece_weights)


@record
class Sum:
    """A route of the reranker: the score of hybrid search, something else that search knows, and what a model sees."""

    parts: tuple[str, str, str]
    """Their names."""
    weights: tuple[float, float, float]
    """As they are served."""
    calibration: Calibration
    """As it is served."""
    fingerprint: str
    """Of the model, and of what else decides what it sees."""
    route: Callable[[Sequence[RerankPair]], Route]
    known: Callable[[RerankPair], float]
    """The second part."""

    def features(self, pairs: Sequence[RerankPair]) -> Floats:
        """Return the parts before they are weighed, (pairs, 3)."""
        # With nothing known, what is left of the sum is the model's.
        bare = [replace(pair, fused=0.0, lexical=0.0, cosine=0.0) for pair in pairs]
        logits = self.route(bare).score(range(len(bare)))
        seen = (logits - self.calibration.shift) / (self.calibration.slope * self.weights[2])
        known = [(pair.fused, self.known(pair)) for pair in pairs]
        return np.column_stack([np.array(known, np.float32).reshape(-1, 2), seen])


def second_opinion(model: Model) -> Sum:
    """Describe the route for English."""
    served = SecondOpinion
    return Sum(
        parts=("hybrid search", "BM25", "second opinion"),
        weights=(1.0, served.LEXICAL, served.OPINION),
        calibration=served.CALIBRATION,
        fingerprint=model.fingerprint,
        route=lambda pairs: served(model, pairs, Remembered(0), batch_tokens=BATCH_TOKENS),
        known=lambda pair: pair.lexical,
    )


def matching(model: Model, piece_weights: Floats) -> Sum:
    """Describe the route for all other languages."""
    served = Matching
    rarity = hashlib.sha256(piece_weights.tobytes()).hexdigest()[:12]
    return Sum(
        parts=("hybrid search", "cosine", "matching"),
        weights=(1.0, served.COSINE, served.MATCH),
        calibration=served.CALIBRATION,
        fingerprint=f"{model.fingerprint}+{rarity}",
        route=lambda pairs: served(model, piece_weights, pairs, Remembered(0), batch_tokens=BATCH_TOKENS),
        known=lambda pair: pair.cosine,
    )


def pair_of(question: str, document: Document, language: str, found: Candidates, place: tuple[int, int]) -> RerankPair:
    """Put together what a worker gives to the reranker; place: question and rank among the candidates."""
    return RerankPair(
        query=question,
        query_language=language,
        heading=document.title,
        text=document.whole[:_MAX_CHARS],
        language=language,
        fused=float(found.fused[place]),
        lexical=float(found.lexical[place]),
        cosine=float(found.cosines[place]),
    )
