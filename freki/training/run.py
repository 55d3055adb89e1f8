"""The record of a training, sufficient for reproduction."""

from collections.abc import Mapping
from typing import Literal

from freki.schemas.names import record
from freki.training.dataset import PairFile


@record
class Recipe:
    """Parameters of a training."""

    seed: int = 7
    token_dim: int = 64
    """Dimension of token vectors."""
    distilled_dim: int = 128
    """Dimension of distilled vectors."""
    units: int = 512
    """Hidden units of the networks that imitate the teacher."""
    token_texts: int = 400
    """Passages of each language of whose token states the principal components are taken."""
    passages: int = 6000
    """Passages on which the teacher is imitated."""
    questions: int = 8000
    """Questions on which the teacher is imitated."""


@record
class TrainingRun:
    """The record of a training."""

    format: Literal["freki training 2"]
    made_at: str
    """ISO 8601, UTC."""
    took_s: float
    made_with: Mapping[str, str]
    """Commit, machine, versions."""
    models: tuple[str, ...]
    """Fingerprints of embedder and teacher."""
    recipe: Recipe
    files: tuple[PairFile, ...]
    heads: str
    """SHA-256 of the file."""
