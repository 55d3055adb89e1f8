"""Static 8-bit quantisation of the dense layers of a graph, with scales from calibration.

Dynamic quantisation of onnxruntime uses one scale per batch, so the vector of a text depends on its batch (measured: up
to 0.018 per component, cosine 0.9965 to float32). Here scales come from calibration texts, and each channel is divided
by its calibrated range while its weights are multiplied by it, so that channels with large values do not reduce the
precision of others: cosine 0.9986, independent of the batch, and faster.
Source: Xiao et al., SmoothQuant, ICML 2023, arXiv:2211.10438. Deviation: divided at run time, not folded into the layer
before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from freki.infra.models.bert import CONTRIB, Graph, Projection
from freki.schemas.arrays import Floats

SMOOTHING = 0.75
"""Share of the range of a channel moved into the weights; 0.65 to 0.85 differ by less than 0.0005."""
MARGIN = 1.05
"""Factor on calibrated ranges; values beyond are clipped."""
WEIGHT_LIMIT = 63
"""7 bits: two products of 8 bits overflow the 16-bit sums of x86 without VNNI; vectors must not depend on the CPU."""
_TINY = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Minimum and maximum of each channel, shape (channels,); the range includes 0."""

    low: Floats
    high: Floats


def calibrate(
    session: ort.InferenceSession, names: Sequence[str], feeds: Iterable[Mapping[str, NDArray[np.int64]]]
) -> dict[str, Ranges]:
    """Return the ranges of the outputs `names` of a float graph, (..., channels), for these inputs."""
    lows: dict[str, Floats] = {}
    highs: dict[str, Floats] = {}
    for feed in feeds:
        for name, output in zip(names, session.run(names, feed), strict=True):
            rows = output.reshape(-1, output.shape[-1])
            lows[name] = np.minimum(lows.get(name, 0), rows.min(axis=0))
            highs[name] = np.maximum(highs.get(name, 0), rows.max(axis=0))
    return {name: Ranges(low=lows[name], high=highs[name]) for name in names}


class Int8Dense:
    """Dense layers in 8 bits: inputs asymmetric, weights symmetric per column."""

    def __init__(self, ranges: Mapping[str, Ranges]) -> None:
        self._ranges = ranges

    def __call__(self, graph: Graph, source: str, projections: Sequence[Projection]) -> list[str]:
        """Add the layers to the graph."""
        ranges = self._ranges[source]
        smoothing = smoothing_of(ranges, np.concatenate([each.weights for each in projections], axis=1))
        smooth = graph.add("Mul", [source, graph.constant(f"{source}.smoothing", 1 / smoothing)], f"{source}.smooth")
        low, high = float((ranges.low / smoothing).min()), float((ranges.high / smoothing).max())
        step = max(MARGIN * (high - low) / 255, _TINY)
        scale = graph.constant(f"{source}.scale", np.array(step, np.float32))
        zero = graph.constant(f"{source}.zero", np.array(round(-MARGIN * low / step), np.uint8))
        integers = _Integers(
            graph.add("QuantizeLinear", [smooth, scale, zero], f"{source}.integers"), scale=scale, zero=zero
        )
        return [
            _product(graph, integers, Projection(name, weights * smoothing[:, None], bias))
            for name, weights, bias in projections
        ]


def smoothing_of(ranges: Ranges, weights: Floats) -> Floats:
    """Return the divisor of each input channel; geometric mean 1.

    weights: (channels, outputs).
    """
    values = _not_silent(np.maximum(-ranges.low, ranges.high))
    strengths = _not_silent(np.abs(weights).max(axis=1))
    logs = SMOOTHING * np.log(values) - (1 - SMOOTHING) * np.log(strengths)
    smoothing: Floats = np.exp(logs - logs.mean()).astype(np.float32)
    return smoothing


def _not_silent(values: Floats) -> Floats:
    """Return the values, at least a thousandth of the largest: calibration may have missed active inputs."""
    return np.maximum(values, max(values.max() * 1e-3, _TINY))


class _Integers(NamedTuple):
    """An 8-bit tensor: names of values, scale and zero point."""

    name: str
    scale: str
    zero: str


def _product(graph: Graph, integers: _Integers, projection: Projection) -> str:
    name, weights, bias = projection
    steps = (np.maximum(np.abs(weights).max(axis=0), _TINY) / WEIGHT_LIMIT).astype(np.float32)
    return graph.add(
        "MatMulIntegerToFloat",
        [
            integers.name,
            graph.constant(f"{name}.weights", np.rint(weights / steps).astype(np.int8)),
            integers.scale,
            graph.constant(f"{name}.steps", steps),
            integers.zero,
            graph.constant(f"{name}.zeros", np.zeros(len(steps), np.int8)),
            graph.constant(f"{name}.bias", bias),
        ],
        name,
        domain=CONTRIB,
    )
