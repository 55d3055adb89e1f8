"""Measurement of the chosen reranker, by default the bundled one, on evaluation sets."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from freki.infra.models import OnnxReranker
from freki.infra.settings import ModelSettings
from freki.training.cache import ArrayCache
from freki.training.encoders import Stage, open_encoder
from freki.training.features import served
from freki.training.figures import Figures, examine, search_set


async def measure_sets(
    sets: Sequence[Path], settings: ModelSettings, cache: ArrayCache, stage: Stage, *, most: int | None
) -> Figures:
    """Rerank the candidates of hybrid search for at most `most` questions of each set.

    Raises Rejected for an invalid set.
    """
    settings = served(settings)
    encoder = open_encoder(settings)
    async with OnnxReranker(settings) as reranker:
        score = partial(reranker.score, budget_s=None)
        found = []
        for directory in sets:
            searched = search_set(directory, encoder, cache, stage, most=most)
            with stage(f"{searched.examined.name}: reranking", len(searched.questions)) as advance:
                found.append(await examine(searched, score, advance))
        return Figures(
            format="freki reranker figures 1",
            reranker=reranker.model.fingerprint,
            embedder=encoder.fingerprint,
            sets=tuple(found),
        )
