"""Mean token states of texts, and the vectors of the encoder that is imitated; both cached."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from freki.schemas.arrays import Floats
from freki.training.cache import ArrayCache
from freki.training.encoders import BLOCK, Advance
from freki.training.states import HeadedText, LayerModel

T = TypeVar("T")


class Means(NamedTuple):
    """Mean states of texts and of their headings."""

    texts: Floats
    """(texts, layers x hidden)"""
    headings: Floats
    """(texts, layers x hidden); zeros for a text without a heading."""


def passage_means(texts: Sequence[HeadedText], model: LayerModel, cache: ArrayCache, advance: Advance) -> Means:
    """Return the means of passages, computed in blocks that are kept in 16 bits."""
    found = []
    for block in _blocks(texts):
        decided_by = [model.fingerprint, model.passage_prefix, *(f"{each.heading_chars} {each.text}" for each in block)]
        found.append(cache.get(decided_by, partial(_of_passages, model, block)))
        advance(len(block))
    return Means(*(np.concatenate([each[part].astype(np.float32) for each in found]) for part in ("texts", "headings")))


def query_means(texts: Sequence[str], model: LayerModel, cache: ArrayCache, advance: Advance) -> Floats:
    """Return the means of queries, computed in blocks that are kept in 16 bits."""
    found = []
    for block in _blocks(texts):
        decided_by = [model.fingerprint, model.query_prefix, *block]
        found.append(cache.get(decided_by, partial(_of_queries, model, block))["texts"].astype(np.float32))
        advance(len(block))
    return np.concatenate(found)


def _of_passages(model: LayerModel, texts: Sequence[HeadedText]) -> dict[str, Floats]:
    means = _ordered((place, (each.mean, each.heading_mean)) for place, each in model.passages(texts))
    return {
        "texts": np.stack([text for text, _ in means]).astype(np.float16),
        "headings": np.stack([heading for _, heading in means]).astype(np.float16),
    }


def _of_queries(model: LayerModel, texts: Sequence[str]) -> dict[str, Floats]:
    means = _ordered((place, each.mean) for place, each in model.queries(texts))
    return {"texts": np.stack(means).astype(np.float16)}


def _blocks(texts: Sequence[T]) -> list[Sequence[T]]:
    return [texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK)]


def _ordered(placed: Iterable[tuple[int, T]]) -> list[T]:
    by_place = dict(placed)
    return [by_place[place] for place in range(len(by_place))]
