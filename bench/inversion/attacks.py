"""Attacks on what a store has of texts. Arrays in, shares in 0..1 out; deterministic."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freki.operators.late_interaction import LEVELS
from freki.schemas.arrays import Floats

Bags = Sequence[frozenset[str]]
"""The distinct terms of each text."""
_RIDGE = 1.0
_BATCH = 512


class Recovered(NamedTuple):
    """Terms that an attack names, compared with those that a text has."""

    precision: float
    """Share of the named terms that the text has, mean over texts."""
    recall: float
    """Share of the terms of the text that are named, mean over texts."""


def rank_one(guesses: Floats, pool: Floats, right: Sequence[int]) -> float:
    """Return the share of guesses whose right text is the nearest of the pool.

    guesses: (guesses, dim), pool: (texts, dim), rows of norm 1; right: row of the pool for each guess.
    """
    hits = 0
    for start in range(0, len(guesses), _BATCH):
        cosines = guesses[start : start + _BATCH] @ pool.T
        wanted = np.asarray(right[start : start + _BATCH])
        found = cosines[np.arange(len(wanted)), wanted]
        hits += int(((cosines > found[:, None]).sum(1) == 0).sum())
    return hits / len(guesses)


def by_neighbour(hidden: Floats, bags: Bags, known: Floats, known_bags: Bags, *, most: int) -> Recovered:
    """Name the rarest `most` terms of the known text whose vector is nearest."""
    frequency = Counter(term for bag in known_bags for term in bag)
    nearest = [int((known @ vector).argmax()) for vector in hidden]
    named = [sorted(known_bags[each], key=lambda term: (frequency[term], term))[:most] for each in nearest]
    return _compared(named, bags)


def by_linear_map(
    hidden: Floats, bags: Bags, known: Floats, known_bags: Bags, *, vocabulary: int, most: int
) -> Recovered:
    """Name the `most` terms that a ridge regression from vectors to known bags of words scores highest.

    vocabulary: the map covers so many of the most frequent terms of the known texts. A score is relative to the mean of
    the term, in standard deviations, so that not every text is said to have the most frequent terms.
    """
    terms, targets = _table(known_bags, vocabulary)
    mean, scale = targets.mean(0), np.maximum(targets.std(0), 1e-6)
    centre = known.mean(0)
    inputs = known - centre
    gram = inputs.T @ inputs + _RIDGE * np.eye(inputs.shape[1], dtype=np.float32)
    weights = np.linalg.solve(gram, inputs.T @ ((targets - mean) / scale))
    scores = (hidden - centre) @ weights
    best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
    return _compared([[terms[column] for column in row] for row in best], bags)


def by_frequency(bags: Bags, known_bags: Bags, *, most: int) -> Recovered:
    """Name the most frequent terms of the known texts, whatever the vector: what an attack has to beat."""
    frequency = Counter(term for bag in known_bags for term in bag)
    common = sorted(frequency, key=lambda term: (-frequency[term], term))[:most]
    return _compared([common] * len(bags), bags)


def quantised(states: Floats) -> Floats:
    """Return token states as match codes have them: each number rounded to one of nine levels."""
    between = (LEVELS[1:] + LEVELS[:-1]) / 2
    rounded: Floats = LEVELS[np.searchsorted(between, states)].astype(np.float32)
    return rounded


def by_token_states(
    hidden: Floats, tokens: NDArray[np.int64], known: Floats, known_tokens: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return for each hidden state whether the nearest known state is of the same token, (hidden,).

    hidden: (hidden, dim), known: (known, dim); tokens: id of the token of each state.
    """
    unit = known / np.maximum(np.linalg.norm(known, axis=1, keepdims=True), 1e-6)
    found = np.concatenate(
        [(hidden[start : start + _BATCH] @ unit.T).argmax(1) for start in range(0, len(hidden), _BATCH)]
    )
    same: NDArray[np.bool_] = known_tokens[found] == tokens
    return same


def by_rank_of_frequency(hidden: Bags, known: Bags, *, most: int) -> float:
    """Return how many of the most frequent hidden terms are those of the same rank in known texts.

    So somebody would read keyed hashes: by counting in how many rows each is.
    """
    ranked = [
        [
            term
            for term, _ in sorted(Counter(t for bag in bags for t in bag).items(), key=lambda each: (-each[1], each[0]))
        ]
        for bags in (hidden, known)
    ]
    return sum(one == other for one, other in zip(ranked[0][:most], ranked[1][:most], strict=False)) / most


def by_known_rows(bags: Bags, *, share: float) -> tuple[float, float]:
    """Return the share of the terms of other rows, and of rare ones, that rows of known text would name.

    An upper bound: whoever knows the text of some rows is taken to know which hash is which of their terms. Rare are
    terms in at most 1 % of the rows.
    """
    count = max(1, round(share * len(bags)))
    read = frozenset().union(*bags[:count])
    frequency = Counter(term for bag in bags for term in bag)
    others = [term for bag in bags[count:] for term in bag]
    rare = [term for term in others if frequency[term] <= max(2, len(bags) // 100)]
    return _share(others, read), _share(rare, read)


def _share(terms: Sequence[str], read: frozenset[str]) -> float:
    return sum(term in read for term in terms) / max(1, len(terms))


def _table(bags: Bags, vocabulary: int) -> tuple[list[str], Floats]:
    frequency = Counter(term for bag in bags for term in bag)
    terms = sorted(frequency, key=lambda term: (-frequency[term], term))[:vocabulary]
    columns = {term: column for column, term in enumerate(terms)}
    table: Floats = np.zeros((len(bags), len(terms)), np.float32)
    for row, bag in enumerate(bags):
        for term in bag:
            if term in columns:
                table[row, columns[term]] = 1
    return terms, table


def _compared(named: Sequence[Sequence[str]], bags: Bags) -> Recovered:
    hits = [sum(term in bag for term in terms) for terms, bag in zip(named, bags, strict=True)]
    precision = [hit / len(terms) for hit, terms in zip(hits, named, strict=True) if terms]
    recall = [hit / len(bag) for hit, bag in zip(hits, bags, strict=True) if bag]
    return Recovered(float(np.mean(precision)), float(np.mean(recall)))
