"""Features of the reranker for a pair, computed by the serving code."""

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
"""Maximum characters of a text, more than the model reads."""


def served(settings: ModelSettings) -> ModelSettings:
    """Return the settings with the bundled reranker if none is chosen."""
    return settings if settings.reranker else settings.model_copy(update={"reranker": RERANKER})


def open_sums(settings: ModelSettings, piece_weights: Floats) -> tuple["Sum", "Sum"]:
    """Open the routes of the bundled reranker, for English and for all other languages.

    Raises as `obtain` does.
    """
    companion = MODELS[RERANKER].companion or ""
    second = open_model(obtain(settings, companion, ModelKind.EMBEDDER, unseen), threads=settings.threads)
    first = open_model(obtain(settings, RERANKER, ModelKind.RERANKER, unseen), threads=settings.threads)
    return second_opinion(second), matching(first, piece_weights)


@record
class Sum:
    """A route of the reranker: a sum of the hybrid score, another score of search, and the score of a model."""

    parts: tuple[str, str, str]
    """Names of the features."""
    weights: tuple[float, float, float]
    """Weights in the serving code."""
    calibration: Calibration
    """Calibration in the serving code."""
    fingerprint: str
    """Fingerprint of the model and of its other parameters."""
    route: Callable[[Sequence[RerankPair]], Route]
    known: Callable[[RerankPair], float]
    """Returns the second feature."""

    def features(self, pairs: Sequence[RerankPair]) -> Floats:
        """Return the unweighted features, (pairs, 3)."""
        # Without scores of search, the sum is that of the model alone.
        bare = [replace(pair, fused=0.0, lexical=0.0, cosine=0.0) for pair in pairs]
        logits = self.route(bare).score(range(len(bare)))
        seen = (logits - self.calibration.shift) / (self.calibration.slope * self.weights[2])
        known = [(pair.fused, self.known(pair)) for pair in pairs]
        return np.column_stack([np.array(known, np.float32).reshape(-1, 2), seen])


def second_opinion(model: Model) -> Sum:
    """Return the route for English."""
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
    """Return the route for all other languages."""
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
    """Return the pair that a worker passes to the reranker; place: indices of query and candidate."""
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
