"""Late interaction of stored token vectors: their codes, and MaxSim of a query with many texts.

A code is text of printable ASCII, so that any store keeps it: each character holds two numbers, each rounded to one of
nine levels. Token vectors come scaled to variance 1 per dimension, for which the levels have the least squared error;
the token vectors of queries are not rounded, and carry the inverse scale and the weight of each token.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from freki.schemas.arrays import Floats

_UNIT = 27
LEVELS = np.array([-61, -40, -25, -12, 0, 12, 25, 40, 61], np.float32) / _UNIT
"""Levels of least squared error for a normal distribution, in units of 1/27. Source: Max, IRE 1960."""
_EXACT = 2**18
"""Sum of a query row in integers: with levels up to 61, sums stay below 2^24, so that 32-bit floats add exactly."""
MATCH = 4.0
COSINE = 4.0
LEXICAL = 0.0
"""Weights of MaxSim, cosine and BM25 share beside the fused score."""
SLOPE = 3.605
SHIFT = -25.882
"""Map of the weighted sum to log-odds, fitted on held-out queries: docs/reranker.md."""
_BETWEEN = (LEVELS[1:] + LEVELS[:-1]) / 2
_TINY = 1e-9
_FIRST = ord("*")
"""Character of the two lowest levels; the last one is `z`."""
_PAIRS = np.zeros((256, 2), np.float32)
_PAIRS[_FIRST : _FIRST + len(LEVELS) ** 2] = _UNIT * np.stack(np.meshgrid(LEVELS, LEVELS, indexing="ij"), -1).reshape(
    -1, 2
)
# One look-up gives both numbers of a character.
_DECODED = _PAIRS.view(np.uint64).reshape(-1)


def token_codes(texts: Sequence[Floats]) -> list[str]:
    """Return the code of the token vectors of each text, (tokens, dim): dim / 2 characters a token.

    Raises ValueError if dim is odd.
    """
    if not texts:
        return []
    rows = np.concatenate(texts)
    tokens, dim = rows.shape
    if dim % 2:
        raise ValueError(f"dim must be even, got {dim}")
    steps = np.zeros(rows.shape, np.uint8)
    # Faster than a binary search, for so few levels.
    for border in _BETWEEN:
        steps += rows > border
    pairs = steps.reshape(tokens, dim // 2, 2)
    characters = (_FIRST + len(LEVELS) * pairs[..., 0] + pairs[..., 1]).tobytes().decode("ascii")
    ends = (np.cumsum([len(text) for text in texts]) * (dim // 2)).tolist()
    return [characters[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def max_similarities(query: Floats, codes: Sequence[str]) -> Floats:
    """Return for each text the sum over the query's tokens of the largest dot product with a token of the text.

    query: (tokens, dim), each row scaled by its token's weight. Returns (texts,); nan for a text with an empty code.
    Raises ValueError for a code that does not hold whole tokens of this dimension.
    Source: Khattab and Zaharia, SIGIR 2020, doi:10.1145/3397271.3401075. Deviation: tokens of the query are weighted.
    """
    width = query.shape[1] // 2
    if any(len(code) % width for code in codes):
        raise ValueError(f"a code does not hold whole tokens of {width} characters")
    found = np.full(len(codes), np.nan, np.float32)
    filled = [place for place, code in enumerate(codes) if code]
    if not filled or not len(query):
        return found
    characters = np.frombuffer("".join(codes).encode("ascii"), np.uint8)
    tokens = _DECODED[characters].view(np.float32).reshape(-1, 2 * width)
    lengths = np.array([len(codes[place]) // width for place in filled])
    starts = np.cumsum(lengths) - lengths
    # In integers, so that a score does not depend on the other texts: sums of floats depend on how BLAS divides them.
    scale = _EXACT / max(float(np.abs(query).sum(axis=1).max()), _TINY)
    # Query tokens first: each row is contiguous along the tokens of the texts.
    closest: NDArray[np.float32] = np.maximum.reduceat(np.rint(query * scale) @ tokens.T, starts, axis=1)
    found[filled] = closest.sum(axis=0, dtype=np.float64) / (_UNIT * scale)
    return found


def relevance(
    similarities: Floats, *, fused: Sequence[float], cosines: Sequence[float], lexical: Sequence[float]
) -> Floats:
    """Return the probability that each candidate is relevant, (candidates,), by a calibrated weighted sum.

    similarities: of `max_similarities`; a candidate without one (nan) gets the median of the others. fused and lexical:
    0..1. Raises ValueError where lengths differ.
    """
    if len({len(similarities), len(fused), len(cosines), len(lexical)}) > 1:
        raise ValueError("each candidate needs a similarity, a fused score, a cosine and a BM25 share")
    known = similarities[~np.isnan(similarities)]
    matches = np.where(np.isnan(similarities), np.median(known) if len(known) else 0.0, similarities)
    sums = np.asarray(fused) + MATCH * matches + COSINE * np.asarray(cosines) + LEXICAL * np.asarray(lexical)
    # By tanh, which does not overflow.
    probabilities: Floats = (0.5 * (1 + np.tanh((SLOPE * sums + SHIFT) / 2))).astype(np.float32)
    return probabilities
