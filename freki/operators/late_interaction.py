"""Comparison of a query with stored passages: their codes, and the similarities of a query with many of them.

A code is printable ASCII, so that any store keeps it: the token vectors of a passage, with a tilde behind those of its
heading if it has one, and after a bar the distilled vectors of its text and of its heading.

- Of a token vector each character holds two numbers, each rounded to one of nine levels. The numbers have variance 1,
  for which these levels have the least squared error; the query's are not rounded, and carry the inverse scale and the
  weight of each token.
- Of a distilled vector each character holds one number, rounded to 1/10.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freki.schemas.arrays import Floats
from freki.schemas.embeddings import Embeddings, QueryEmbedding

_UNIT = 27
LEVELS = np.array([-61, -40, -25, -12, 0, 12, 25, 40, 61], np.float32) / _UNIT
"""Levels of least squared error for a normal distribution, in units of 1/27. Source: Max, IRE 1960."""
_BETWEEN = (LEVELS[1:] + LEVELS[:-1]) / 2
_EXACT = 2**18
"""Sum of a query row in integers: with levels up to 61, sums stay below 2^24, so that 32-bit floats add exactly."""
_TINY = 1e-9
_FIRST = ord("*")
"""Character of the lowest numbers; the last one is `z`."""
_CHARACTERS = len(LEVELS) ** 2
_BLOCK = 1024
"""Tokens that are decoded at once: their vectors stay in the cache of a core, which halves the time."""
_STEP = 0.1
"""Precision of distilled vectors, whose numbers have variance 1: 4 standard deviations fit on either side of 0."""
_BAR = "|"
_TILDE = "~"
_PAIRS = np.zeros((256, 2), np.float32)
_PAIRS[_FIRST : _FIRST + _CHARACTERS] = _UNIT * np.stack(np.meshgrid(LEVELS, LEVELS, indexing="ij"), -1).reshape(-1, 2)
# One look-up gives both numbers of a character.
_DECODED = _PAIRS.view(np.uint64).reshape(-1)


class Similarities(NamedTuple):
    """Similarities of a query with passages, (passages,) each; nan where either has no such vectors."""

    tokens: Floats
    """Weighted mean over the query's tokens of the largest similarity with a token of the passage (MaxSim)."""
    text: Floats
    """Cosine of the distilled vectors of query and text."""
    heading: Floats
    """Cosine of the distilled vectors of query and heading."""
    heading_tokens: Floats
    """Mean over the heading's tokens of the largest similarity with a token of the query."""


def match_codes(passages: Embeddings) -> list[str]:
    """Return the code of each passage; empty for one without token vectors and distilled vectors.

    Raises ValueError if the dimension of token vectors is odd.
    """
    tokens = _coded(passages.tokens, _pairs, per_character=2)
    distilled = _coded(passages.distilled, _singles, per_character=1)
    width = passages.tokens[0].shape[1] // 2 if passages.tokens else 0
    ends = [width * heading for heading in passages.headings] or [0] * len(tokens)
    marked = (own[:end] + _TILDE + own[end:] if end else own for own, end in zip(tokens, ends, strict=True))
    return [f"{own}{_BAR}{further}" if further else own for own, further in zip(marked, distilled, strict=True)]


def similarities(query: QueryEmbedding, codes: Sequence[str]) -> Similarities:
    """Compare a query with passages by their codes. The result for a passage does not depend on the others.

    Raises ValueError for a code that does not hold whole vectors of the query's dimensions.
    Source: Khattab and Zaharia, SIGIR 2020, doi:10.1145/3397271.3401075. Deviation: tokens of the query are weighted.
    """
    parts = [code.partition(_BAR) for code in codes]
    text, heading = _cosines(query.distilled, [distilled for _, _, distilled in parts])
    tokens, heading_tokens = _max_similarities(query, [tokens for tokens, _, _ in parts])
    return Similarities(tokens, text, heading, heading_tokens)


def _coded(
    texts: Sequence[Floats], characters: Callable[[Floats], NDArray[np.uint8]], *, per_character: int
) -> list[str]:
    if not texts:
        return []
    coded = characters(np.concatenate(texts)).tobytes().decode("ascii")
    ends = (np.cumsum([text.size for text in texts]) // per_character).tolist()
    return [coded[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _pairs(rows: Floats) -> NDArray[np.uint8]:
    tokens, dim = rows.shape
    if dim % 2:
        raise ValueError(f"dim must be even, got {dim}")
    steps = np.zeros(rows.shape, np.uint8)
    # Faster than a binary search, for so few levels.
    for border in _BETWEEN:
        steps += rows > border
    pairs = steps.reshape(tokens, dim // 2, 2)
    found: NDArray[np.uint8] = _FIRST + len(LEVELS) * pairs[..., 0] + pairs[..., 1]
    return found


def _singles(rows: Floats) -> NDArray[np.uint8]:
    steps = np.clip(np.rint(rows / _STEP) + _CHARACTERS // 2, 0, _CHARACTERS - 1)
    found: NDArray[np.uint8] = _FIRST + steps.astype(np.uint8)
    return found


def _max_similarities(query: QueryEmbedding, codes: Sequence[str]) -> tuple[Floats, Floats]:
    width = query.tokens.shape[1] // 2
    found = np.full((2, len(codes)), np.nan, np.float32)
    filled = [place for place, code in enumerate(codes) if code]
    if not filled or not len(query.tokens):
        return found[0], found[1]
    headings = np.array([max(0, codes[place].find(_TILDE)) for place in filled])
    characters = "".join(codes).replace(_TILDE, "")
    lengths = np.array([len(codes[place]) for place in filled]) - (headings > 0)
    if (lengths % width).any() or (headings % width).any():
        raise ValueError(f"a code does not hold whole tokens of {width} characters")
    lengths, headings = lengths // width, headings // width
    starts = np.cumsum(lengths) - lengths
    # In integers, so that a score does not depend on the other texts: sums of floats depend on how BLAS divides them.
    scale = _EXACT / max(float(np.abs(query.tokens).sum(axis=1).max()), _TINY)
    products = _products(np.rint(query.tokens * scale), _bytes(characters))
    closest: NDArray[np.float32] = np.maximum.reduceat(products, starts, axis=0)
    found[0, filled] = (closest * query.weights.astype(np.float64)).sum(axis=1) / (_UNIT * scale)
    with_heading = np.flatnonzero(headings)
    if len(with_heading):
        counts = headings[with_heading]
        firsts = np.cumsum(counts) - counts
        rows = np.repeat(starts[with_heading] - firsts, counts) + np.arange(counts.sum())
        nearest = products[rows].max(axis=1).astype(np.float64)
        found[1, np.array(filled)[with_heading]] = np.add.reduceat(nearest, firsts) / (counts * _UNIT * scale)
    return found[0], found[1]


def _products(query: Floats, characters: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the products of token vectors, (texts' tokens, query's tokens); query: (tokens, dim), integers."""
    width = query.shape[1] // 2
    tokens = len(characters) // width
    products = np.empty((tokens, len(query)), np.float32)
    columns = np.ascontiguousarray(query.T)
    decoded = np.empty(_BLOCK * width, np.uint64)
    for start in range(0, tokens, _BLOCK):
        end = min(start + _BLOCK, tokens)
        block = decoded[: (end - start) * width]
        # Other modes than the default write to `out` without a copy; all characters are within the table.
        np.take(_DECODED, characters[start * width : end * width], out=block, mode="clip")
        np.matmul(block.view(np.float32).reshape(-1, 2 * width), columns, out=products[start:end])
    return products


def _cosines(query: Floats, codes: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the cosines with the first and the second vector of each code, (codes,) each."""
    found = np.full((len(codes), 2), np.nan, np.float32)
    width = len(query)
    if width and any(codes):
        if any(len(code) not in (0, width, 2 * width) for code in codes):
            raise ValueError(f"a code does not hold one or two vectors of {width} characters")
        rows = (
            (_bytes("".join(codes)).astype(np.int16) - (_FIRST + _CHARACTERS // 2))
            .reshape(-1, width)
            .astype(np.float32)
        )
        scale = _EXACT / max(float(np.abs(query).sum()), _TINY)
        products = rows @ np.rint(query * scale) / (scale * np.maximum(np.linalg.norm(rows, axis=1), _TINY))
        places = [(at, field) for at, code in enumerate(codes) for field in range(len(code) // width)]
        if places:
            found[tuple(np.array(places).T)] = products
    return found[:, 0], found[:, 1]


def _bytes(characters: str) -> NDArray[np.uint8]:
    return np.frombuffer(characters.encode("ascii"), np.uint8)


class Weights(NamedTuple):
    """Weights of a sum of scores, and the map of the sum to log-odds, fitted on held-out queries."""

    cosine: float
    lexical: float
    tokens: float
    text: float
    heading: float
    heading_tokens: float
    slope: float
    shift: float


ENGLISH = Weights(
    cosine=4.337,
    lexical=0.525,
    tokens=4.203,
    text=0.498,
    heading=1.119,
    heading_tokens=1.514,
    slope=2.108,
    shift=-17.528,
)
"""Weights for queries in English. Learnt by `python -m freki.training`, see docs/reranker.md."""
OTHERS = Weights(
    cosine=16.584, lexical=0.216, tokens=12.881, text=2.145, heading=0.0, heading_tokens=0.0, slope=1.725, shift=-36.585
)
"""Weights for queries in other languages."""


class SearchScores(NamedTuple):
    """Scores of search of each candidate, (candidates,) each."""

    fused: Sequence[float]
    """Score of hybrid search, 0..1."""
    cosines: Sequence[float]
    lexical: Sequence[float]
    """BM25 score as a share of the best one, 0..1."""


def relevance(found: Similarities, search: SearchScores, *, weights: Weights) -> Floats:
    """Return the probability that each candidate is relevant, (candidates,), by a calibrated weighted sum.

    A candidate without one of the similarities (nan) gets the median of the others; one without a distilled vector of a
    heading that of its text. Raises ValueError where lengths differ.
    """
    if len({len(found.tokens), *map(len, search)}) > 1:
        raise ValueError("each candidate needs its similarities and its scores of search")
    text = filled(found.text)
    sums = (
        np.asarray(search.fused)
        + weights.cosine * np.asarray(search.cosines)
        + weights.lexical * np.asarray(search.lexical)
        + weights.tokens * filled(found.tokens)
        + weights.text * text
        + weights.heading * np.where(np.isnan(found.heading), text, found.heading)
        + weights.heading_tokens * filled(found.heading_tokens)
    )
    # By tanh, which does not overflow.
    probabilities: Floats = (0.5 * (1 + np.tanh((weights.slope * sums + weights.shift) / 2))).astype(np.float32)
    return probabilities


def filled(values: Floats) -> Floats:
    """Return values with the median of the known ones in place of nan; 0 without any."""
    known = values[~np.isnan(values)]
    found: Floats = np.where(np.isnan(values), np.median(known) if len(known) else 0.0, values)
    return found
