"""Which questions are shown, how often, and which are kept to judge by."""

from collections.abc import Sequence

import numpy as np

from freki.training.batches import Example
from freki.training.material import Collection


def hold_out(
    collections: Sequence[Collection], count: int, rng: np.random.Generator
) -> tuple[list[Example], list[Example]]:
    """Split questions into those to learn from and at most `count` others, so that no answer is in both.

    What is held out is at most a tenth.
    """
    every = [Example(at, number) for at, each in enumerate(collections) for number in range(len(each.questions))]
    held = [every[place] for place in rng.permutation(len(every))[: min(count, len(every) // 10)]]
    answers = {_answer(collections, example) for example in held}
    return [example for example in every if _answer(collections, example) not in answers], held


def drawn(
    collections: Sequence[Collection], examples: Sequence[Example], lists: int, rng: np.random.Generator
) -> list[Example]:
    """Choose `lists` examples by the share of their source, in any order; all come before any comes once more often."""
    found: list[Example] = []
    while examples and len(found) < lists:
        shares = np.array([collections[at].questions[number].share for at, number in examples])
        times = np.floor(shares).astype(int) + (rng.random(len(shares)) < shares % 1)
        once = [example for example, often in zip(examples, times, strict=True) for _ in range(often)]
        found += [once[place] for place in rng.permutation(len(once))]
    return found[:lists]


def _answer(collections: Sequence[Collection], example: Example) -> tuple[int, int]:
    return example.collection, collections[example.collection].questions[example.question].answer
