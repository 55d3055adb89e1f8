"""What is kept of a training: the tensors that differ from the encoder that it began with, in 16 bits."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from freki.infra.models.build import make_reranker
from freki.infra.models.e5s1 import E5S1, Floats
from freki.infra.models.manifest import seal, sha256_of
from freki.infra.models.progress import unseen
from freki.infra.models.registry import MODELS, Architecture, ModelDescription, ModelKind
from freki.infra.models.tuned import read_tuned
from freki.training.rows import TEXT_TOKENS

BASE = MODELS["multilingual-e5-small"]
"""What the student begins as."""
_DESCRIPTION = ModelDescription(
    name="freki-reranker",
    kind=ModelKind.RERANKER,
    architecture=Architecture.LATE_INTERACTION,
    max_tokens=TEXT_TOKENS,
    query_prefix=BASE.description.query_prefix,
    passage_prefix=BASE.description.passage_prefix,
    licence=BASE.description.licence,
)


def write_artefact(path: Path, tensors: Mapping[str, Floats], *, layers: int) -> None:
    """Write what `read_tuned` reads; equal tensors give equal bytes.

    tensors: by the names of the E5S1 format, and heads; layers: how many the encoder has, those as before included.
    Raises ValueError for a tensor that 16 bits cannot hold.
    """
    with np.errstate(over="ignore"):
        halves = {name: tensors[name].astype(np.float16) for name in sorted(tensors)}
    for name, half in halves.items():
        if not np.isfinite(half).all():
            raise ValueError(f"{name} holds values that are no number of 16 bits")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, layers=np.array(layers), **halves)


def build_model(artefact: Path, base: E5S1, directory: Path) -> None:
    """Make the reranker that `FREKI_MODELS__RERANKER` can name of an artefact and the encoder that it began with."""
    directory.mkdir(parents=True, exist_ok=True)
    make_reranker(read_tuned(artefact, base), directory, unseen)
    seal(directory, _DESCRIPTION, fingerprint=f"{_DESCRIPTION.name}@{sha256_of(artefact)[:12]}")
