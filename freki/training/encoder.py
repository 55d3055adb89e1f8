"""BERT in torch, with its parts named as in the E5S1 format: what is trained here runs as an ONNX graph there."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from freki.infra.models.e5s1 import BertShape, Floats


class Readable(Protocol):
    """Weights of an encoder, by the names of the E5S1 format."""

    @property
    def shape(self) -> BertShape:
        """Sizes."""

    def vector(self, name: str) -> Floats:
        """Read a tensor, flat."""

    def matrix(self, name: str, *, columns: int) -> Floats:
        """Read a tensor as (outputs, columns)."""


class Layer(nn.Module):
    """Attention and feed-forward, each added to what it read and normalised."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        hidden, wide = shape.hidden, shape.feed_forward
        self.heads = shape.heads
        self.q, self.k, self.v, self.ao = (nn.Linear(hidden, hidden) for _ in range(4))
        self.aln, self.oln = (nn.LayerNorm(hidden, eps=shape.epsilon) for _ in range(2))
        self.fi, self.fo = nn.Linear(hidden, wide), nn.Linear(wide, hidden)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Give the next states; states: (batch, tokens, hidden), mask: (batch, 1, 1, tokens), True for tokens."""
        q, k, v = (part(states).unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        states = self.aln(states + self.ao(context.transpose(1, 2).flatten(2)))
        return self.oln(states + self.fo(functional.gelu(self.fi(states))))


class Encoder(nn.Module):
    """The lower layers of an encoder; positions hold the type of the token too, which is always the first."""

    def __init__(self, weights: Readable, *, layers: int) -> None:
        super().__init__()
        self.shape = weights.shape
        hidden = self.shape.hidden
        words = torch.from_numpy(weights.matrix("emb.word", columns=hidden).copy())
        self.words = nn.Embedding.from_pretrained(words)
        positions = weights.vector("emb.pos").reshape(-1, hidden) + weights.vector("emb.type")[:hidden]
        self.register_buffer("positions", torch.from_numpy(positions))
        self.norm = nn.LayerNorm(hidden, eps=self.shape.epsilon)
        self.norm.load_state_dict(_read(weights, "emb.ln"))
        self.layers = nn.ModuleList(Layer(self.shape) for _ in range(layers))
        for number, layer in enumerate(self.layers):
            for part, module in layer.named_children():
                columns = module.in_features if isinstance(module, nn.Linear) else None
                module.load_state_dict(_read(weights, f"l{number}.{part}", columns))

    def forward(self, ids: Tensor, mask: Tensor, *, frozen: int = 0) -> Tensor:
        """Give the last states, (batch, tokens, hidden); the lowest `frozen` layers learn nothing.

        ids: (batch, tokens); mask: the same shape, True for tokens, False for padding.
        """
        seen = mask[:, None, None, :]
        with torch.no_grad():
            states = self.norm(self.words(ids) + self.positions[: ids.shape[1]])
            for layer in self.layers[:frozen]:
                states = layer(states, seen)
        for layer in self.layers[frozen:]:
            states = layer(states, seen)
        return states


def mean_of(states: Tensor, mask: Tensor) -> Tensor:
    """Average the states of tokens, in floats; returns (batch, hidden)."""
    real = mask[..., None]
    return (states.float() * real).sum(1) / real.sum(1)


def named_tensors(encoder: Encoder, layers: range) -> Iterator[tuple[str, Tensor]]:
    """Name the tensors of some layers as the E5S1 format does."""
    for number in layers:
        for name, tensor in encoder.layers[number].state_dict().items():
            part, kind = name.split(".")
            yield f"l{number}.{part}.{kind[0]}", tensor


def _read(weights: Readable, name: str, columns: int | None = None) -> dict[str, Tensor]:
    """Read a dense layer or, without `columns`, a normalisation."""
    matrix = weights.vector(f"{name}.w") if columns is None else weights.matrix(f"{name}.w", columns=columns)
    return {"weight": torch.from_numpy(matrix.copy()), "bias": torch.from_numpy(weights.vector(f"{name}.b").copy())}
