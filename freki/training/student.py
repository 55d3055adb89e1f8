"""The model that is trained: an encoder, what late interaction reads off it, and the head over the features of a pair.

Computes in torch what `freki.infra.models.tuned` and `interaction` compute in ONNX and NumPy.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from freki.infra.models.e5s1 import Floats
from freki.training.batches import Batch
from freki.training.encoder import Encoder, mean_of, named_tensors

FEATURES = (
    "words found in the text",
    "words found in the heading",
    "words found in either",
    "first view of the text",
    "first view of the heading",
    "second view of the text",
    "second view of the heading",
    "score of hybrid search",
    "cosine of the vectors",
    "has a heading",
)
"""In the order of `features_of`."""
_START = (0.4, 0.2, 0.4, 0.1, 0.4, 0.7, 0.3, 1.5, 0.5, 0.0)
"""Weights of the features to begin with: hybrid search is to be improved upon, not to be learned anew."""
_BENT = 32
_GROUP = 24
"""Rows that are encoded together: enough to fill the cores, few enough that they are of like length."""
_SMALLEST_SPREAD = 1e-3


class Seen(NamedTuple):
    """Encoded rows, padded."""

    tokens: Tensor
    """(rows, tokens, hidden), of length 1."""
    mask: Tensor
    """(rows, tokens), True for tokens."""
    weights: Tensor
    """(rows, tokens), above 0."""
    views: Tensor
    """(rows, 2, hidden), of length 1."""


class Described(NamedTuple):
    """A batch as the head sees it, and what the views were."""

    features: Tensor
    """(pairs, features)."""
    question_views: Tensor
    """(questions, 2, hidden)."""
    row_views: Tensor
    """(rows, 2, hidden)."""


class Head(nn.Module):
    """Turns the features of pairs into logits: a line through them, and one bent layer."""

    def __init__(self) -> None:
        super().__init__()
        size = len(FEATURES)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("spread", torch.ones(size))
        self.linear = nn.Parameter(torch.tensor(_START))
        self.hidden = nn.Linear(size, _BENT)
        self.out = nn.Parameter(torch.zeros(_BENT))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, features: Tensor) -> Tensor:
        """Score features, (pairs, features); returns (pairs,)."""
        scaled = (features - self.mean) / self.spread
        return scaled @ self.linear + torch.tanh(self.hidden(scaled)) @ self.out + self.bias

    def standardise(self, features: Tensor) -> None:
        """Take mean and spread from a sample, but for the last feature, which says yes or no."""
        self.mean[:-1] = features.mean(0)[:-1]
        self.spread[:-1] = features.std(0)[:-1].clamp(min=_SMALLEST_SPREAD)

    def rescale(self, slope: float, shift: float) -> None:
        """Turn every logit into slope * logit + shift."""
        with torch.no_grad():
            for parameter in (self.linear, self.out, self.bias):
                parameter.mul_(slope)
            self.bias.add_(shift)


class Student(nn.Module):
    """A late-interaction reranker whose lowest layers and embeddings stay as they are."""

    def __init__(self, encoder: Encoder, *, frozen: int) -> None:
        super().__init__()
        hidden = encoder.shape.hidden
        self.encoder = encoder.requires_grad_(requires_grad=False)
        self.frozen = frozen
        for layer in encoder.layers[frozen:]:
            layer.requires_grad_(requires_grad=True)
        self.token = nn.Linear(hidden, hidden, bias=False)
        nn.init.eye_(self.token.weight)
        self.weight = nn.Linear(hidden, 1)
        nn.init.zeros_(self.weight.weight)
        nn.init.ones_(self.weight.bias)
        self.views = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(2))
        for view in self.views:
            nn.init.eye_(view.weight)
            nn.init.zeros_(view.bias)
        self.head = Head()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.weight.weight.device

    def forward(self, batch: Batch) -> Described:
        """Describe the pairs of a batch."""
        question = self.see(batch.questions)
        telling = question.weights * _words(question.mask, batch.lead)
        telling = telling / telling.sum(1, keepdim=True)
        matches, views = self._match(question.tokens, batch.rows)
        owner, text, heading = (self._tensor(part) for part in (batch.owner, batch.text, batch.heading))
        by_text, by_heading = matches[text, owner], matches[heading, owner]
        found = [(by * telling[owner]).sum(1) for by in (by_text, by_heading, torch.maximum(by_text, by_heading))]
        asked = question.views[owner]
        cosines = [(asked[:, view] * views[rows, view]).sum(1) for view in (0, 1) for rows in (text, heading)]
        known = [self._tensor(part).float() for part in (batch.fused, batch.cosine, batch.heading != batch.text)]
        return Described(torch.stack([*found, *cosines, *known], 1), question.views, views)

    def see(self, rows: Sequence[Sequence[int]]) -> Seen:
        """Encode rows of token ids."""
        ids, mask = self._padded(rows)
        states = self.encoder(ids, mask, frozen=self.frozen)
        pooled = mean_of(states, mask)
        return Seen(
            tokens=functional.normalize(self.token(states).float(), dim=-1),
            mask=mask,
            weights=functional.softplus(self.weight(states).float().squeeze(-1)) * mask,
            views=functional.normalize(torch.stack([view(pooled) for view in self.views], 1).float(), dim=-1),
        )

    def pooled(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Give the mean states of rows, (rows, hidden)."""
        means = []
        for places in _alike(rows):
            ids, mask = self._padded([rows[place] for place in places])
            means.append((places, mean_of(self.encoder(ids, mask, frozen=self.frozen), mask)))
        return _in_order(means)

    def _match(self, words: Tensor, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Find the closest token of each row for each word of each question.

        words: (questions, words, hidden); returns cosines, (rows, questions, words), and views, (rows, 2, hidden).
        """
        # All questions meet all rows, though few pairs are wanted: against encoding a row it costs nothing.
        matches, views = [], []
        for places in _alike(rows):
            seen = self.see([rows[place] for place in places])
            with torch.autocast(self.device.type, enabled=False):
                cosines = torch.einsum("rth,qwh->rqwt", seen.tokens, words)
            matches.append((places, cosines.masked_fill(~seen.mask[:, None, None, :], -1.0).amax(3)))
            views.append((places, seen.views))
        return _in_order(matches), _in_order(views)

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros(ids.shape, np.bool_)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = True
        return self._tensor(ids), self._tensor(mask)

    def _tensor(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(self.device)


def _words(mask: Tensor, lead: int) -> Tensor:
    """Choose the words of questions: without <s>, prefix and </s>, unless there is nothing else."""
    place = torch.arange(mask.shape[1], device=mask.device)
    length = mask.sum(1, keepdim=True)
    words = (place >= lead) & (place < length - 1)
    return torch.where(words.any(1, keepdim=True), words, mask)


def _alike(rows: Sequence[Sequence[int]]) -> list[NDArray[np.intp]]:
    """Group the places of rows of like length."""
    order = np.argsort([len(row) for row in rows], kind="stable")
    return np.array_split(order, math.ceil(len(rows) / _GROUP))


def _in_order(parts: Sequence[tuple[NDArray[np.intp], Tensor]]) -> Tensor:
    """Put the rows of groups back where they were."""
    places = np.concatenate([at for at, _ in parts])
    return torch.cat([part for _, part in parts])[np.argsort(places)]


def tensors_of(student: Student) -> dict[str, Floats]:
    """Name what was trained as `read_tuned` wants it: layers as in the E5S1 format, and heads."""
    found = dict(named_tensors(student.encoder, range(student.frozen, len(student.encoder.layers))))
    found["token.w"] = student.token.weight
    found["weight.w"], found["weight.b"] = student.weight.weight[0], student.weight.bias
    for number, view in enumerate(student.views):
        found[f"view{number}.w"], found[f"view{number}.b"] = view.weight, view.bias
    head = student.head
    for name in ("mean", "spread", "linear", "out", "bias"):
        found[f"head.{name}"] = getattr(head, name)
    found["head.hidden.w"], found["head.hidden.b"] = head.hidden.weight, head.hidden.bias
    return {name: tensor.detach().float().cpu().numpy() for name, tensor in found.items()}
