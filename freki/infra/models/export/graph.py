"""Changes to an exported graph: 8-bit dense layers and embeddings, nothing that only its export needed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from freki.infra.models.bert import CONTRIB, Graph, Projection
from freki.infra.models.build import save_graph
from freki.infra.models.packed import pack_rows
from freki.infra.models.quantise import Int8Dense, Ranges, calibrate
from freki.schemas.arrays import Floats

Feed = Mapping[str, NDArray[np.int64]]
"""Inputs of a graph by name, each (batch, tokens)."""
_LEAST_OUTPUTS = 16
"""Dense layers with fewer outputs, such as a classifier's, stay in float32: they are small, and the score is theirs."""
_LEAST_ROWS = 1024
"""Embedding tables with fewer rows stay in float32: they are small."""
_MATRIX_NDIM = 2
_CALIBRATION = "calibration.onnx"


def strip(file: Path) -> None:
    """Remove stack traces of the export, with their paths, from the graph; weights are not touched."""
    model = onnx.load(file, load_external_data=False)
    _forget_origin(model)
    onnx.save_model(model, file)


def inputs_of(file: Path) -> list[str]:
    """Return the names of a graph's inputs."""
    return [each.name for each in onnx.load(file, load_external_data=False).graph.input]


def quantise(file: Path, feeds: Iterable[Feed]) -> None:
    """Replace the dense layers and large embedding tables of a float graph by 8-bit ones, in place.

    feeds: calibration inputs, see `quantise.py`. The weights of the graph lie beside it.
    """
    model = onnx.load(file, load_external_data=False)
    weights = _Weights(model.graph, file.parent)
    layers = _dense_layers(model.graph, weights)
    tables = [node for node in model.graph.node if _is_table(node, weights)]
    ranges = _ranges(model, file, list(layers), feeds)
    added = _quantised(layers, tables, ranges, weights)
    _replace(model.graph, added)
    _drop_unused(model.graph, {each.name for nodes in added.values() for each in nodes.constants})
    for kept in model.graph.initializer:
        if external_data_helper.uses_external_data(kept):
            external_data_helper.load_external_data_for_tensor(kept, str(file.parent))
    for nodes in added.values():
        model.graph.initializer.extend(nodes.constants)
    del model.graph.value_info[:]
    model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    _forget_origin(model)
    for old in (file, *(file.parent.glob(f"{file.name}.data*"))):
        old.unlink()
    save_graph(model, file)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A product of a dense layer, with the sum of its bias if there is one."""

    product: onnx.NodeProto
    sum: onnx.NodeProto | None
    weights: str
    bias: str | None

    @property
    def output(self) -> str:
        return str((self.sum or self.product).output[0])


class _Weights:
    """The constants of a graph, read when they are needed: together they may be larger than memory."""

    def __init__(self, graph: onnx.GraphProto, folder: Path) -> None:
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._transposed = {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "Transpose" and len(self.shape(node.input[0])) == _MATRIX_NDIM
        }
        self._folder = folder

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a float constant; () for anything else."""
        tensor = self._tensors.get(name)
        return tuple(tensor.dims) if tensor is not None and tensor.data_type == TensorProto.FLOAT else ()

    def matrix_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a float constant, or of a transposed one."""
        return self.shape(self._transposed[name])[::-1] if name in self._transposed else self.shape(name)

    def array(self, name: str) -> Floats:
        """Read a float constant, or a transposed one."""
        if name in self._transposed:
            return np.ascontiguousarray(self.array(self._transposed[name]).T)
        tensor = TensorProto()
        tensor.CopyFrom(self._tensors[name])
        if external_data_helper.uses_external_data(tensor):
            external_data_helper.load_external_data_for_tensor(tensor, str(self._folder))
        found: Floats = numpy_helper.to_array(tensor).astype(np.float32)
        return found


def _dense_layers(graph: onnx.GraphProto, weights: _Weights) -> dict[str, list[_Layer]]:
    """Return the dense layers by their input."""
    users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            users[name].append(node)
    found: dict[str, list[_Layer]] = defaultdict(list)
    outputs = {each.name for each in graph.output}
    for node in graph.node:
        shape = weights.matrix_shape(node.input[1]) if node.op_type == "MatMul" else ()
        if len(shape) == _MATRIX_NDIM and shape[1] >= _LEAST_OUTPUTS and not weights.shape(node.input[0]):
            after = users[node.output[0]]
            adds = [each for each in after if each.op_type == "Add" and node.output[0] not in outputs]
            bias = _bias(adds[0], node.output[0], weights, shape[1]) if len(after) == len(adds) == 1 else None
            found[node.input[0]].append(_Layer(node, adds[0] if bias else None, node.input[1], bias))
    return dict(found)


def _bias(add: onnx.NodeProto, product: str, weights: _Weights, outputs: int) -> str | None:
    (other,) = [name for name in add.input if name != product] or [""]
    return other if weights.shape(other) == (outputs,) else None


def _is_table(node: onnx.NodeProto, weights: _Weights) -> bool:
    shape = weights.shape(node.input[0]) if node.op_type == "Gather" else ()
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    return len(shape) == _MATRIX_NDIM and shape[0] >= _LEAST_ROWS and axis == 0


def _ranges(model: onnx.ModelProto, file: Path, sources: list[str], feeds: Iterable[Feed]) -> dict[str, Ranges]:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    known = {each.name for each in watched.graph.output}
    watched.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sources if name not in known
    )
    beside = file.with_name(_CALIBRATION)
    onnx.save_model(watched, beside)
    try:
        return calibrate(ort.InferenceSession(beside, providers=["CPUExecutionProvider"]), sources, feeds)
    finally:
        beside.unlink()


def _quantised(
    layers: Mapping[str, list[_Layer]],
    tables: Iterable[onnx.NodeProto],
    ranges: Mapping[str, Ranges],
    weights: _Weights,
) -> dict[str, Graph]:
    """Return the nodes that replace others, by the output of the node that they stand for; empty: the node goes."""
    added: dict[str, Graph] = {}
    dense = Int8Dense(ranges)
    for source, of_source in layers.items():
        together = Graph()
        projections = [_projection(layer, weights) for layer in of_source]
        dense(together, source, projections)
        for layer in of_source:
            added |= {layer.product.output[0]: Graph(), layer.output: Graph()}
        # All that follows the first product finds the outputs of all.
        added[of_source[0].product.output[0]] = together
    for node in tables:
        added[node.output[0]] = _table(node, weights)
    return added


def _projection(layer: _Layer, weights: _Weights) -> Projection:
    matrix = weights.array(layer.weights)
    bias = np.zeros(matrix.shape[1], np.float32) if layer.bias is None else weights.array(layer.bias)
    return Projection(layer.output, matrix, bias)


def _table(node: onnx.NodeProto, weights: _Weights) -> Graph:
    """Return the nodes that look up rows of 8-bit integers and scale them."""
    output, graph = node.output[0], Graph()
    rows, scale = pack_rows(weights.array(node.input[0]))
    looked_up = [
        graph.add(
            "Gather", [graph.constant(f"{output}.table.{name}", value), node.input[1]], f"{output}.table.{name}.rows"
        )
        for name, value in (("integers", rows), ("scale", scale.astype(np.float32)[:, None]))
    ]
    floats = graph.add("Cast", looked_up[:1], f"{output}.table.floats", to=TensorProto.FLOAT)
    graph.add("Mul", [floats, looked_up[1]], output)
    return graph


def _replace(graph: onnx.GraphProto, added: Mapping[str, Graph]) -> None:
    nodes = list(_replaced(graph, added))
    del graph.node[:]
    graph.node.extend(nodes)


def _replaced(graph: onnx.GraphProto, added: Mapping[str, Graph]) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        instead = added.get(node.output[0])
        yield from [node] if instead is None else instead.nodes


def _drop_unused(graph: onnx.GraphProto, replaced: AbstractSet[str]) -> None:
    """Remove nodes and constants that nothing uses, and constants that others of their name replace."""
    used = {each.name for each in graph.output}
    kept = []
    for node in reversed(graph.node):
        if used.intersection(node.output):
            kept.append(node)
            used.update(node.input)
            used.update(name for inner in _subgraphs(node) for each in inner.node for name in each.input)
    constants = [tensor for tensor in graph.initializer if tensor.name in used - replaced]
    del graph.node[:]
    graph.node.extend(kept[::-1])
    del graph.initializer[:]
    graph.initializer.extend(constants)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
            for inner in attribute.g.node:
                yield from _subgraphs(inner)


def _forget_origin(model: onnx.ModelProto) -> None:
    graph = model.graph
    parts: list[Any] = [model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info]
    for part in parts:
        part.doc_string = ""
        del part.metadata_props[:]
