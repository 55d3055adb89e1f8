"""Split of queries into training and held-out examples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from freki.training.dataset import Collection


class Example(NamedTuple):
    """A query by the indices of collection and query."""

    collection: int
    question: int


def hold_out(
    collections: Sequence[Collection], count: int, rng: np.random.Generator
) -> tuple[list[Example], list[Example]]:
    """Return training and held-out examples without common answers.

    `count` held-out examples, at most a third of all, are sampled by the weight of their source.
    """
    every = [Example(at, number) for at, each in enumerate(collections) for number in range(len(each.questions))]
    held = drawn(collections, every, min(count, len(every) // 3), rng)
    answers = {_answer(collections, example) for example in held}
    return [example for example in every if _answer(collections, example) not in answers], held


def drawn(
    collections: Sequence[Collection], examples: Sequence[Example], count: int, rng: np.random.Generator
) -> list[Example]:
    """Sample at most `count` examples without replacement, weighted by the share of their source."""
    shares = np.array([collections[at].questions[number].share for at, number in examples])
    # Source: Efraimidis and Spirakis, IPL 2006, doi:10.1016/j.ipl.2005.11.003.
    keys = rng.exponential(size=len(shares)) / shares
    return [examples[place] for place in np.sort(np.argsort(keys, kind="stable")[:count])]


def _answer(collections: Sequence[Collection], example: Example) -> tuple[int, int]:
    return example.collection, collections[example.collection].questions[example.question].answer
