"""A reranker for the peers: Freki's late interaction, computed when a question is asked.

The peers store no token vectors. The layers of the embedder that these need are a model of their own, which reads the
candidates of each question; distilled vectors would need all layers, and are left out.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from freki.infra.models.bert import LateInteractionHead
from freki.infra.models.build import make, read_heads
from freki.infra.models.descriptions import WheelSource
from freki.infra.models.e5s1 import read_e5s1, unigram_tokenizer
from freki.infra.models.manifest import VOCABULARY, seal
from freki.infra.models.progress import unseen
from freki.infra.models.registry import MODELS
from freki.infra.models.session import Model, open_model
from freki.infra.models.weights import bundled_path, wheel_file
from freki.infra.settings import ModelSettings


def open_lowest_layers(settings: ModelSettings) -> Model:
    """Make and open the model in a temporary folder."""
    embedder = MODELS[settings.embedder]
    source = next(source for source in embedder.sources if isinstance(source, WheelSource))
    file = wheel_file(source)
    if file is None or source.late_interaction is None:
        raise ValueError(f"{settings.embedder} has no weights here, or no heads for late interaction")
    weights, heads = read_e5s1(file), read_heads(bundled_path(source.late_interaction))
    lowest = replace(weights, shape=replace(weights.shape, layers=heads.token_layer))
    tokens_only = replace(
        heads,
        distilled_layers=(heads.token_layer,),
        passages=_without_distilled(heads.passages, weights.shape.hidden),
        queries=_without_distilled(heads.queries, weights.shape.hidden),
    )
    directory = Path(mkdtemp(prefix="freki-peers-"))
    np.savez(directory / VOCABULARY, weights=heads.weights, kept=heads.kept)
    make(lowest, unigram_tokenizer(weights.pieces), directory, unseen, heads=tokens_only)
    seal(directory, embedder.description, fingerprint="lowest-layers")
    return open_model(directory, threads=settings.threads)


def _without_distilled(head: LateInteractionHead, hidden: int) -> LateInteractionHead:
    """Return a head with one useless distilled dimension."""
    nothing = np.zeros((hidden, 1), np.float32)
    one = np.zeros(1, np.float32)
    return replace(head, hidden=nothing, hidden_bias=one, out=nothing[:1], skip=nothing, bias=one + 1)
