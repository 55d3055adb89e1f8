"""Embed chunks by themselves or, with late chunking, as spans of a window."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from freki.schemas.arrays import Floats
from freki.streams.ports import Embedder


class Embeddable(NamedTuple):
    """Input of a chunk's vector."""

    text: str
    """Text to embed without a window."""
    window: str | None = None
    start: int = 0
    end: int = 0
    """Half-open span of the chunk in the window, in code points."""


async def embed_each(embedder: Embedder, chunks: Sequence[Embeddable]) -> Floats:
    """Return the vectors of chunks, (chunks, dim); each window is encoded once."""
    vectors = np.empty((len(chunks), embedder.dim), np.float32)
    without_window = [place for place, chunk in enumerate(chunks) if chunk.window is None]
    if without_window:
        vectors[without_window] = await embedder.embed_passages([chunks[place].text for place in without_window])
    by_window: defaultdict[str, list[int]] = defaultdict(list)
    for place, chunk in enumerate(chunks):
        if chunk.window is not None:
            by_window[chunk.window].append(place)
    if by_window:
        spans = [[(chunks[place].start, chunks[place].end) for place in places] for places in by_window.values()]
        places = [place for each in by_window.values() for place in each]
        vectors[places] = await embedder.embed_within(list(by_window), spans)
    return vectors
