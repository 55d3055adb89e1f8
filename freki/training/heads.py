"""The heads of late interaction, which map token states to what is compared: learning them, and their file.

Token vectors are principal components of the states of one layer. Distilled vectors imitate the vectors of another
encoder, from mean states of several layers; the states are multilingual, so that heads learned on texts of one language
serve others.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freki.infra.models.bert import LateInteractionHead, LateInteractionHeads
from freki.schemas.arrays import Floats

FILE = "late_interaction.npz"
_COMPONENTS = 400
_SHRINKAGE = 0.03
"""Share of the mean variance that is added to that of a component before it is scaled to 1."""
_RIDGE = 1e-3
"""Penalty of linear weights, as a share of the mean variance of their inputs."""
_RIDGE_UNITS = 0.3
"""Penalty of the weights of hidden units, as a share of their mean variance."""
_SPREAD = 0.5
"""Standard deviation of the biases of hidden units, for inputs of about variance 1."""
_TINY = 1e-9


class DistillationTargets(NamedTuple):
    """Texts with the vectors that are imitated."""

    means: Floats
    """Mean states, (texts, layers x hidden)."""
    vectors: Floats
    """Vectors of the other encoder, (texts, outputs)."""


class TokenMaps(NamedTuple):
    """Affine maps from states to token vectors."""

    passages: Floats
    """(hidden, dim)"""
    shift: Floats
    """Shift of passages, (dim,); queries have none."""
    queries: Floats
    """(hidden, dim)"""


class Network(NamedTuple):
    """A network with one hidden layer of rectified units, and a linear map beside it."""

    hidden: Floats
    hidden_bias: Floats
    out: Floats
    skip: Floats
    bias: Floats

    def __call__(self, means: Floats) -> Floats:
        """Return vectors, (texts, outputs), not normalised."""
        units = np.maximum(means @ self.hidden + self.hidden_bias, 0)
        found: Floats = means @ self.skip + units @ self.out + self.bias
        return found

    def mapped(self, basis: Floats) -> "Network":
        """Return the network with its outputs mapped, basis: (outputs, new outputs)."""
        return self._replace(out=self.out @ basis, skip=self.skip @ basis, bias=self.bias @ basis)


def token_maps(states: Floats, dim: int) -> TokenMaps:
    """Return the maps to principal components of token states, (tokens, hidden).

    Those of passages have mean 0 and variance 1 per component; those of queries are scaled inversely, so that the dot
    product is that of the components but for a constant of each query token.
    """
    mean = states.mean(axis=0)
    components = principal(states - mean, dim)
    scale = np.maximum(((states - mean) @ components).std(axis=0), _TINY)
    passages = components / scale
    return TokenMaps(passages=passages, shift=-mean @ passages, queries=components * scale)


def distil(
    passages: DistillationTargets, queries: DistillationTargets, *, dim: int, units: int, rng: np.random.Generator
) -> tuple[Network, Network]:
    """Return the networks of passages and of queries that imitate another encoder, in `dim` dimensions.

    Dimensions are the principal directions of what both imitate. The numbers of passages have about variance 1.
    """
    networks = [imitate(*each, units=units, rng=rng) for each in (passages, queries)]
    found = [unit(network(each.means)) for network, each in zip(networks, (passages, queries), strict=True)]
    basis = principal(np.concatenate(found), dim)
    of_passages, of_queries = (network.mapped(basis) for network in networks)
    # The same for all dimensions, which keeps cosines.
    scale = np.sqrt(np.mean(of_passages(passages.means) ** 2))
    return of_passages.mapped(np.eye(dim, dtype=np.float32) / scale), of_queries


def imitate(means: Floats, vectors: Floats, *, units: int, rng: np.random.Generator) -> Network:
    """Return the network that imitates vectors: random hidden units, all other weights by ridge regression.

    Source: Rahimi and Recht, NIPS 2008 (random features), on principal components scaled to about variance 1.
    """
    mean = means.mean(axis=0)
    centred = means - mean
    components = _scaled_components(centred)
    directions = rng.normal(0, 1, (components.shape[1], units)).astype(np.float32)
    hidden: Floats = components @ directions / np.float32(np.sqrt(components.shape[1]))
    bias = rng.normal(0, _SPREAD, units).astype(np.float32) - mean @ hidden
    inputs = np.concatenate([means, np.maximum(means @ hidden + bias, 0)], axis=1)
    size = means.shape[1]
    weights, shift = _ridge(inputs, vectors, np.array([_RIDGE] * size + [_RIDGE_UNITS] * units), size)
    return Network(hidden=hidden, hidden_bias=bias, out=weights[size:], skip=weights[:size], bias=shift)


def principal(vectors: Floats, count: int) -> Floats:
    """Return the first principal directions about the origin, (dim, count), by descending variance."""
    values, directions = np.linalg.eigh((vectors.T @ vectors / len(vectors)).astype(np.float64))
    found: Floats = directions[:, np.argsort(-values, kind="stable")[:count]].astype(np.float32)
    return found


def unit(rows: Floats) -> Floats:
    """Scale rows to length 1."""
    scaled: Floats = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), _TINY)
    return scaled


def write_heads(file: Path, heads: LateInteractionHeads) -> None:
    """Write heads in 16 bits, for `freki.infra.models.build.read_heads`."""
    arrays: dict[str, NDArray[np.generic]] = {
        "token_layer": np.array(heads.token_layer),
        "distilled_layers": np.array(heads.distilled_layers),
        "weights": heads.weights.astype(np.float16),
        "kept": heads.kept,
    }
    for role, head in (("passage", heads.passages), ("query", heads.queries)):
        for name in LateInteractionHead.__slots__:
            arrays[f"{role}.{name}"] = getattr(head, name).astype(np.float16)
    with file.open("wb") as opened:
        np.savez_compressed(opened, allow_pickle=False, **arrays)


def head_of(tokens: Floats, shift: Floats, network: Network) -> LateInteractionHead:
    """Return the head of passages or of queries."""
    return LateInteractionHead(tokens=tokens, shift=shift, **network._asdict())


def _scaled_components(centred: Floats) -> Floats:
    """Return principal components of about variance 1, (inputs, components)."""
    values, directions = np.linalg.eigh((centred.T @ centred / len(centred)).astype(np.float64))
    scaled = directions / np.sqrt(values + _SHRINKAGE * values.mean())
    found: Floats = scaled[:, ::-1][:, :_COMPONENTS].astype(np.float32)
    return found


def _ridge(inputs: Floats, outputs: Floats, penalties: Floats, size: int) -> tuple[Floats, Floats]:
    """Return weights, (inputs, outputs), and shift; penalties are shares of the variance of each block of inputs."""
    mean, target = inputs.mean(axis=0), outputs.mean(axis=0)
    centred = inputs - mean
    gram = (centred.T @ centred / len(inputs)).astype(np.float64)
    variances = np.diag(gram).copy()
    variances[:size], variances[size:] = variances[:size].mean(), variances[size:].mean()
    gram[np.diag_indices_from(gram)] += penalties * variances + _TINY
    weights = np.linalg.solve(gram, centred.T @ (outputs - target) / len(inputs)).astype(np.float32)
    shift: Floats = target - mean @ weights
    return weights, shift
