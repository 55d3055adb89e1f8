"""Embed chunks by themselves or, with late chunking, as spans of a window."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from freki.operators.late_interaction import match_codes
from freki.schemas.embeddings import Embeddings, PassageEmbedding
from freki.streams.ports import Embedder


class Embeddable(NamedTuple):
    """Input of a chunk's vector."""

    text: str
    """Text to embed without a window."""
    heading: str = ""
    """Beginning of the text that is its heading."""
    window: str | None = None
    start: int = 0
    end: int = 0
    """Half-open span of the chunk in the window, in code points."""


async def embed_each(embedder: Embedder, chunks: Sequence[Embeddable]) -> list[PassageEmbedding]:
    """Embed chunks; each window is encoded once."""
    found: dict[int, PassageEmbedding] = {}
    without_window = [place for place, chunk in enumerate(chunks) if chunk.window is None]
    if without_window:
        texts = [chunks[place].text for place in without_window]
        found |= zip(
            without_window,
            _passages(await embedder.embed_passages(texts, [chunks[place].heading for place in without_window])),
            strict=True,
        )
    by_window: defaultdict[str, list[int]] = defaultdict(list)
    for place, chunk in enumerate(chunks):
        if chunk.window is not None:
            by_window[chunk.window].append(place)
    if by_window:
        spans = [[(chunks[place].start, chunks[place].end) for place in places] for places in by_window.values()]
        places = [place for each in by_window.values() for place in each]
        found |= zip(places, _passages(await embedder.embed_within(list(by_window), spans)), strict=True)
    return [found[place] for place in range(len(chunks))]


def _passages(embeddings: Embeddings) -> list[PassageEmbedding]:
    codes = match_codes(embeddings)
    return [PassageEmbedding(*each) for each in zip(embeddings.vectors, codes, strict=True)]
