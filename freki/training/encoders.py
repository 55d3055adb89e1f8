"""The embedder of hybrid search, with cached vectors."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np

from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.packing import pack
from freki.infra.models.session import Model, open_model
from freki.infra.settings import ModelSettings
from freki.schemas.arrays import Floats
from freki.schemas.names import record
from freki.training.cache import ArrayCache

Advance = Callable[[int], None]
"""Called with the number of units completed since the last call."""
Stage = Callable[[str, int], AbstractContextManager[Advance]]
"""Opens a progress bar with a title and total units."""

BLOCK = 1024
"""Texts per cached block, which bounds the loss by an interruption."""
MAX_CHARS = 900
"""Maximum characters of a document, about a chunk."""
BATCH_TOKENS = 4096


@record
class Encoder:
    """An encoder of whole texts."""

    fingerprint: str
    """Fingerprint of its weights."""
    embed: Callable[[Sequence[str]], Floats]
    """Returns vectors, (texts, dim), rows of length 1."""
    query_prefix: str = ""
    passage_prefix: str = ""


def open_encoder(settings: ModelSettings, name: str | None = None) -> Encoder:
    """Open an embedder, by default that of the settings; it is made if not cached. Raises as `obtain` does."""
    directory = obtain(settings, name or settings.embedder, ModelKind.EMBEDDER)
    model = open_model(directory, threads=settings.threads)
    return Encoder(
        fingerprint=model.fingerprint,
        embed=partial(_embed, model),
        query_prefix=model.manifest.query_prefix,
        passage_prefix=model.manifest.passage_prefix,
    )


def passages(texts: Sequence[str], encoder: Encoder, cache: ArrayCache, advance: Advance) -> Floats:
    """Embed passages, (texts, dim)."""
    return _kept([encoder.passage_prefix + text for text in texts], encoder, cache, advance)


def questions(texts: Sequence[str], encoder: Encoder, cache: ArrayCache, advance: Advance) -> Floats:
    """Embed queries, (texts, dim)."""
    return _kept([encoder.query_prefix + text for text in texts], encoder, cache, advance)


def _kept(texts: Sequence[str], encoder: Encoder, cache: ArrayCache, advance: Advance) -> Floats:
    """Embed in blocks, each read from the cache if present; stored in 16 bits."""
    blocks = []
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        kept = cache.get([encoder.fingerprint, *block], partial(_block, encoder, block))
        blocks.append(kept["vectors"].astype(np.float32))
        advance(len(block))
    return np.concatenate(blocks)


def _block(encoder: Encoder, texts: Sequence[str]) -> dict[str, Floats]:
    return {"vectors": encoder.embed(texts).astype(np.float16)}


def _embed(model: Model, texts: Sequence[str]) -> Floats:
    encodings = model.encode(texts)
    vectors = np.empty((len(texts), model.dim), np.float32)
    for batch in pack([len(encoding) for encoding in encodings], budget=BATCH_TOKENS):
        vectors[batch] = model.passages([encodings[place] for place in batch], [0] * len(batch)).vectors
    return vectors
