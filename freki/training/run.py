"""The record of a training, sufficient for the model card and for reproduction."""

from collections.abc import Mapping
from typing import Literal

from freki.schemas.names import record
from freki.training.dataset import PairFile


@record
class Recipe:
    """Parameters of a training."""

    lists: int
    """Number of training queries, each with a list of candidates."""
    held_out: int
    """Number of held-out queries, for calibration and evaluation."""
    seed: int
    candidates: int = 32
    """Candidates per query: the usual number of reranked ones."""


@record
class Weighing:
    """A set of weights with its metrics."""

    weights: Mapping[str, float]
    """Weight of each feature."""
    slope: float
    """Slope of the calibrated logit: slope * sum + shift."""
    shift: float
    mrr: float
    """Mean reciprocal rank on held-out queries."""
    error: float
    """Expected calibration error (ECE), calibrated on half of the held-out queries, measured on the others."""


@record
class RouteRun:
    """Result for one route of the reranker."""

    languages: tuple[str, ...]
    learned_from: int
    """Questions."""
    held_out: int
    """Questions."""
    mrr_found: float
    """Mean reciprocal rank in the order of hybrid search."""
    served: Weighing
    """Metrics with the weights in the serving code."""
    learned: Weighing
    """Metrics with the weights learned from the training queries."""


@record
class TrainingRun:
    """The record of a training."""

    format: Literal["freki training 1"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, versions."""
    models: tuple[str, ...]
    """Fingerprints."""
    recipe: Recipe
    files: tuple[PairFile, ...]
    routes: tuple[RouteRun, ...]
    piece_weights: str
    """SHA-256 of the file."""
