"""How weights are learned, and what is kept of it: enough to write the card, and to do it again."""

from collections.abc import Mapping
from typing import Literal

from freki.schemas.names import record
from freki.training.dataset import PairFile


@record
class Recipe:
    """How weights are learned."""

    lists: int
    """Questions to learn from, each with its candidates."""
    held_out: int
    """Questions to calibrate and to judge by."""
    seed: int
    candidates: int = 32
    """Of each question: as many as are usually reranked."""


@record
class Weighing:
    """One choice of weights."""

    weights: Mapping[str, float]
    """Of each part of the sum."""
    slope: float
    """With which a sum becomes a calibrated logit: slope * sum + shift."""
    shift: float
    mrr: float
    """Mean of 1 / place of the answer, 0 where it was not found; on questions that were held out."""
    error: float
    """Mean difference of score and share (ECE); calibrated on half of these questions, measured on the others."""


@record
class RouteRun:
    """What came out for one route of the reranker."""

    languages: tuple[str, ...]
    learned_from: int
    """Questions."""
    held_out: int
    """Questions."""
    mrr_found: float
    """In the order of hybrid search."""
    served: Weighing
    """As the weights are in the code."""
    learned: Weighing
    """As they would be best for the questions that were learned from."""


@record
class TrainingRun:
    """One training."""

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
