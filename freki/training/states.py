"""States of tokens in several layers of the embedder, as late interaction uses them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tokenizers import Encoding

from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.manifest import TOKENIZER, WEIGHTS, fingerprint_of, read_manifest
from freki.infra.models.packing import pack
from freki.infra.models.tensors import FIELDS
from freki.infra.models.tokenizer import open_tokenizer, pad_id
from freki.infra.settings import ModelSettings
from freki.schemas.arrays import Floats
from freki.schemas.names import record
from freki.training.encoders import BATCH_TOKENS
from freki.training.heads import unit

_MAX_TOKENS = 256


class HeadedText(NamedTuple):
    """A text whose first characters are its heading."""

    text: str
    heading_chars: int = 0


@record
class TextStates:
    """The states of the tokens of a text, without special ones and prefix."""

    states: Floats
    """(tokens, layers x hidden); of each layer the states have length 1."""
    pieces: NDArray[np.int64]
    """Index of each token's piece in the vocabulary, (tokens,)."""
    heading: NDArray[np.bool_]
    """Whether a token belongs to the heading, (tokens,)."""

    @property
    def mean(self) -> Floats:
        """Mean state, (layers x hidden,)."""
        return _mean(self.states)

    @property
    def heading_mean(self) -> Floats:
        """Mean state of the heading; zeros without one."""
        return _mean(self.states[self.heading])


@record
class LayerModel:
    """The embedder with the states of some layers."""

    fingerprint: str
    """Fingerprint of the weights and the layers."""
    pieces: int
    """Size of the vocabulary."""
    passage_prefix: str
    query_prefix: str
    encode: Callable[[Sequence[str]], list[Encoding]]
    run: Callable[[Sequence[Encoding]], list[Floats]]
    """Returns the states of each layer, (texts, tokens, hidden)."""

    def passages(self, texts: Sequence[HeadedText]) -> Iterator[tuple[int, TextStates]]:
        """Yield the states of each passage with its place; the order is that of length."""
        return self._states(self.passage_prefix, texts)

    def queries(self, texts: Sequence[str]) -> Iterator[tuple[int, TextStates]]:
        """Yield the states of each query with its place; the order is that of length."""
        return self._states(self.query_prefix, [HeadedText(text) for text in texts])

    def _states(self, prefix: str, texts: Sequence[HeadedText]) -> Iterator[tuple[int, TextStates]]:
        encodings = self.encode([prefix + each.text for each in texts])
        for batch in pack([len(encoding) for encoding in encodings], budget=BATCH_TOKENS):
            layers = self.run([encodings[place] for place in batch])
            for row, place in enumerate(batch):
                # One array of all layers, each of them scaled to length 1.
                rows = np.concatenate([unit(layer[row, : len(encodings[place])]) for layer in layers], axis=1)
                yield place, _own(rows, encodings[place], len(prefix), texts[place].heading_chars)


def open_layers(settings: ModelSettings, layers: Sequence[int]) -> LayerModel:
    """Open the embedder of the settings with the states of some layers; 1 is the lowest. Raises as `obtain` does."""
    directory = obtain(settings, settings.embedder, ModelKind.EMBEDDER)
    manifest = read_manifest(directory)
    tokenizer = open_tokenizer(directory / TOKENIZER)
    session = _exposed(directory, layers, settings.threads)
    outputs = [_output(layer) for layer in layers]
    pad = pad_id(tokenizer)

    def encode(texts: Sequence[str]) -> list[Encoding]:
        encodings: list[Encoding] = tokenizer.encode_batch(list(texts))
        for encoding in encodings:
            encoding.truncate(_MAX_TOKENS)
        return encodings

    def run(batch: Sequence[Encoding]) -> list[Floats]:
        ids = np.full((len(batch), max(map(len, batch))), pad, np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(batch):
            ids[row, : len(encoding)] = encoding.ids
            mask[row, : len(encoding)] = 1
        feeds: dict[str, NDArray[np.generic]] = {"input_ids": ids, "attention_mask": mask}
        if FIELDS in {each.name for each in session.get_inputs()}:
            feeds[FIELDS] = np.zeros((len(batch), 1, ids.shape[1]), np.float32)
        return [np.asarray(each) for each in session.run(outputs, feeds)]

    return LayerModel(
        fingerprint=f"{fingerprint_of(directory, manifest)}+{','.join(map(str, layers))}",
        pieces=tokenizer.get_vocab_size(),
        passage_prefix=manifest.passage_prefix,
        query_prefix=manifest.query_prefix,
        encode=encode,
        run=run,
    )


def _exposed(directory: Path, layers: Sequence[int], threads: int) -> ort.InferenceSession:
    """Open the graph with the states of layers as further outputs."""
    model = onnx.load(directory / WEIGHTS)
    known = {output.name for output in model.graph.output}
    for name in map(_output, layers):
        if name not in known:
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _output(layer: int) -> str:
    """Return the name that `freki.infra.models.bert` gives to the states of a layer."""
    return f"l{layer - 1}.oln"


def _own(rows: Floats, encoding: Encoding, prefix_chars: int, heading_chars: int) -> TextStates:
    ends = np.array(encoding.offsets)[:, 1]
    own = ends > prefix_chars
    return TextStates(
        states=rows[own], pieces=np.array(encoding.ids)[own], heading=ends[own] <= prefix_chars + heading_chars
    )


def _mean(states: Floats) -> Floats:
    mean: Floats = states.mean(axis=0) if len(states) else np.zeros(states.shape[1], np.float32)
    return mean
