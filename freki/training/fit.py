"""The training itself: the student learns an order of candidates, and what either teacher makes of texts."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from freki.infra.models.e5s1 import Floats
from freki.schemas.names import record
from freki.training.batches import Batches, Example, Wanted
from freki.training.student import Described, Student

_SMOOTHING = 0.98
"""How much of a curve's last value stays in the next: about the mean of the last 50 steps."""


@record
class Recipe:
    """How the training goes."""

    lists: int
    """Questions that are shown, each with some candidates."""
    seed: int
    layers: int = 6
    """Of the encoder; those above are left away."""
    frozen: int = 2
    """The lowest ones, which stay as they are, as do the embeddings."""
    lists_per_step: int = 4
    layer_rate: float = 8e-5
    view_rate: float = 2e-4
    """Of views and of the vectors of tokens."""
    head_rate: float = 3e-3
    """Of the head and of the weights of tokens."""
    weight_decay: float = 0.01
    warm_up: float = 0.06
    """Share of the steps in which the rates rise; then they fall to 0."""
    longest_gradient: float = 1.0


@record
class Point:
    """Where the training stands; means of about the last 50 steps."""

    step: int
    order: float
    """Divergence of the student's order from the target, in nats."""
    views: float
    """Mean of 1 - cosine, over views and kinds of texts."""


def fit(
    student: Student, batches: Batches, examples: Sequence[Example], recipe: Recipe, watch: Callable[[Point], None]
) -> None:
    """Show the examples once, in their order, and tell after each step where it stands.

    Computes in 16 bits where the parts allow, on the device of the student. Raises ValueError without examples.
    """
    if not examples:
        raise ValueError("there is nothing to learn from")
    rng = np.random.default_rng([recipe.seed, 1])
    starts = range(0, len(examples), recipe.lists_per_step)
    optimiser = _optimiser(student, recipe)
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, _rate(recipe.warm_up, len(starts)))
    point = None
    for step, start in enumerate(starts, start=1):
        batch, wanted = batches.learn(examples[start : start + recipe.lists_per_step], rng)
        with halves(student):
            described = student(batch)
        order, views = _losses(student, described, wanted)
        optimiser.zero_grad()
        (order + sum(views)).backward()
        nn.utils.clip_grad_norm_(student.parameters(), recipe.longest_gradient)
        optimiser.step()
        rates.step()
        point = _moved(point, step, float(order), float(np.mean([float(view) for view in views] or [0.0])))
        watch(point)


def logits_of(
    student: Student, batches: Batches, examples: Sequence[Example], *, width: int, advance: Callable[[int], None]
) -> list[tuple[Floats, NDArray[np.bool_]]]:
    """Score the first candidates of each example; gives logits and which are right, (candidates,) each."""
    found = []
    for example in examples:
        batch, right = batches.judge([example], width=width)
        with torch.no_grad(), halves(student):
            features = student(batch).features
        with torch.no_grad():
            found.append((student.head(features.float()).cpu().numpy(), right))
        advance(1)
    return found


def halves(student: Student) -> torch.autocast:
    """Compute in 16 bits where the parts allow."""
    return torch.autocast(student.device.type, torch.bfloat16)


def _losses(student: Student, described: Described, wanted: Wanted) -> tuple[Tensor, list[Tensor]]:
    """Measure how far the order is from the target, and the views from the teachers' vectors."""
    orders = torch.from_numpy(wanted.orders).to(student.device)
    logits = student.head(described.features.float()).view(orders.shape)
    order = functional.kl_div(functional.log_softmax(logits, 1), orders, reduction="batchmean")
    texts, headings = described.row_views.split([len(wanted.texts), len(wanted.headings)])
    kinds = [(described.question_views, wanted.questions), (texts, wanted.texts), (headings, wanted.headings)]
    return order, [loss for views, vectors in kinds for loss in _view_losses(views, vectors)]


def _view_losses(views: Tensor, vectors: Floats) -> list[Tensor]:
    """Give the mean of 1 - cosine of each view over the rows where its teacher has a say; views: (rows, 2, dim)."""
    found = []
    for view in range(2) if len(vectors) else ():
        target = torch.from_numpy(vectors[:, view]).to(views.device)
        known = target.any(1)
        if known.any():
            found.append(1 - (views[known, view] * target[known]).sum(1).mean())
    return found


def _optimiser(student: Student, recipe: Recipe) -> torch.optim.Optimizer:
    groups = [
        ([*student.head.parameters(), *student.weight.parameters()], recipe.head_rate),
        ([*student.views.parameters(), *student.token.parameters()], recipe.view_rate),
        ([each for each in student.encoder.parameters() if each.requires_grad], recipe.layer_rate),
    ]
    return torch.optim.AdamW(
        [{"params": parameters, "lr": rate} for parameters, rate in groups], weight_decay=recipe.weight_decay
    )


def _rate(warm_up: float, steps: int) -> Callable[[int], float]:
    """Give the share of the full rate at each step, counted from 0."""
    return lambda step: min(1.0, (step + 1) / (warm_up * steps)) * max(0.0, 1 - step / steps)


def _moved(last: Point | None, step: int, order: float, views: float) -> Point:
    if last is None:
        return Point(step=step, order=order, views=views)
    keep = _SMOOTHING
    return Point(step=step, order=keep * last.order + (1 - keep) * order, views=keep * last.views + (1 - keep) * views)
