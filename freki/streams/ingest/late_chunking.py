"""Embeds chunks by themselves or, where they have a window, as part of it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from freki.schemas.arrays import Floats
from freki.streams.ports import Embedder


class Embeddable(NamedTuple):
    """What a chunk's vector is made of."""

    text: str
    """What is embedded where there is no window."""
    window: str | None = None
    start: int = 0
    end: int = 0
    """Half-open span of the chunk in the window, in code points."""


async def embed_each(embedder: Embedder, chunks: Sequence[Embeddable]) -> Floats:
    """Return the vectors of chunks, (chunks, dim); each window is encoded once."""
    vectors = np.empty((len(chunks), embedder.dim), np.float32)
    alone = [place for place, chunk in enumerate(chunks) if chunk.window is None]
    if alone:
        vectors[alone] = await embedder.embed_passages([chunks[place].text for place in alone])
    within: defaultdict[str, list[int]] = defaultdict(list)
    for place, chunk in enumerate(chunks):
        if chunk.window is not None:
            within[chunk.window].append(place)
    if within:
        spans = [[(chunks[place].start, chunks[place].end) for place in places] for places in within.values()]
        places = [place for each in within.values() for place in each]
        vectors[places] = await embedder.embed_within(list(within), spans)
    return vectors
