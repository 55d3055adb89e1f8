"""Where the student's parts start: its views where least squares puts them, its features at mean 0 and spread 1."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from freki.infra.models.e5s1 import Floats
from freki.training.batches import Batches, Example, Studied
from freki.training.rows import Row, Rows
from freki.training.student import Student

_TEXTS = 1250
"""Of each kind and collection."""
_RIDGE = 1e-5
"""Against rows that are nearly alike, for each row."""
_LISTS_AT_ONCE = 4


def start_views(student: Student, studied: Sequence[Studied], rows: Rows, rng: np.random.Generator) -> list[float]:
    """Let each view follow its teacher as closely as a linear map of pooled states can; one without a teacher stays.

    Returns the mean cosine of each view and its teacher.
    """
    states, wanted = [], []
    for texts, views in _samples(studied, rows, rng):
        states.append(student.pooled(texts).double())
        wanted.append(torch.from_numpy(views).to(states[-1]))
    pooled, targets = torch.cat(states), torch.cat(wanted)
    return [_solve(view, pooled, targets[:, number]) for number, view in enumerate(student.views)]


def start_head(student: Student, batches: Batches, examples: Sequence[Example], rng: np.random.Generator) -> None:
    """Let the head standardise features by those of some examples."""
    features = [
        student(batches.learn(examples[start : start + _LISTS_AT_ONCE], rng)[0]).features
        for start in range(0, len(examples), _LISTS_AT_ONCE)
    ]
    student.head.standardise(torch.cat(features).float())


def _samples(studied: Sequence[Studied], rows: Rows, rng: np.random.Generator) -> Iterator[tuple[list[Row], Floats]]:
    """Choose questions, titles and documents; give their rows, and what the teachers make of them, (rows, 2, dim)."""
    for each in studied:
        of = each.collection
        questions = rng.permutation(len(of.questions))[:_TEXTS]
        yield (
            rows.questions([of.questions[at].text for at in questions]),
            np.stack([*map(each.question_views, questions)]),
        )
        titles = rng.permutation(len(of.titles))[:_TEXTS]
        if len(titles):
            yield rows.headings([of.titles[at] for at in titles]), np.stack([*map(each.title_views, titles)])
        documents = rng.permutation(len(of.documents))[:_TEXTS]
        if each.second is not None:
            yield rows.texts([of.documents[at] for at in documents]), np.stack([*map(each.text_views, documents)])


def _solve(view: torch.nn.Linear, states: Tensor, targets: Tensor) -> float:
    """Put a view where it is closest to its targets, (rows, dim), of which those that are 0 do not count."""
    known = targets.any(1)
    if not known.any():
        return 0.0
    x = torch.cat([states[known], states.new_ones(int(known.sum()), 1)], 1)
    y = targets[known]
    ridge = _RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    solution = torch.linalg.solve(x.T @ x + ridge, x.T @ y)
    view.weight.copy_(solution[:-1].T)
    view.bias.copy_(solution[-1])
    return float(torch.nn.functional.cosine_similarity(x @ solution, y).mean())
