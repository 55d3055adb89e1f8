"""From a folder or repository in Hugging Face format to a verified directory."""

import asyncio
import re
import shutil
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from freki.infra.extras import require
from freki.infra.models.descriptions import ModelDescription, ModelKind, Pooling
from freki.infra.models.deviations import Deviation, is_within, score_deviations, shown, vector_deviations, worst_of
from freki.infra.models.embedder import OnnxEmbedder
from freki.infra.models.export.calibration import calibration
from freki.infra.models.export.folder import read_folder
from freki.infra.models.export.graph import inputs_of, quantise, strip
from freki.infra.models.export.texts import QUERIES, pairs_beyond, passages_beyond
from freki.infra.models.hub import fetch
from freki.infra.models.manifest import (
    TOKENIZER,
    WEIGHTS,
    Expected,
    ExpectedScore,
    ExpectedVector,
    ModelManifest,
    fingerprint_by,
    read_manifest,
    seal,
)
from freki.infra.models.multi_embedder import alone
from freki.infra.models.progress import Progress
from freki.infra.models.reranker import OnnxReranker
from freki.infra.models.tokenizer import open_tokenizer
from freki.infra.settings import ModelSettings
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured

if TYPE_CHECKING:
    from freki.infra.models.export.torch_model import TorchModel

_STEPS = 5
_DIGITS = 7
"""Decimals of expected vectors: the precision of float32."""
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class Precision(StrEnum):
    """Precision of dense layers and embeddings."""

    INT8 = "int8"
    FP32 = "fp32"


TOLERANCES = {
    (Precision.FP32, ModelKind.EMBEDDER): 1e-4,
    (Precision.FP32, ModelKind.RERANKER): 1e-4,
    # Of prose up to 0.01; of texts without a letter up to 0.03.
    (Precision.INT8, ModelKind.EMBEDDER): 0.05,
    (Precision.INT8, ModelKind.RERANKER): 0.05,
}
"""Maximum deviation from torch: cosine distance of vectors, difference of scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to export; None: as the model's files say."""

    source: str
    """Folder, or name of a repository on the Hugging Face hub."""
    directory: Path
    """To be made; may exist if it is empty."""
    revision: str | None = None
    """Branch, tag or commit of a repository."""
    precision: Precision = Precision.INT8
    kind: ModelKind | None = None
    pooling: Pooling | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedModel:
    """A verified directory."""

    manifest: ModelManifest
    worst: Deviation
    mean: float
    """Mean deviation."""
    tolerance: float
    checks: int
    """Number of texts or pairs compared."""
    size_bytes: int


async def export_model(request: Request, settings: ModelSettings, progress: Progress) -> ExportedModel:
    """Export a model, compare it with torch, and write its directory, or nothing.

    Raises Misconfigured for what cannot be exported, and where the export gives other outputs than torch.
    """
    require("models-export")
    directory = request.directory.expanduser().absolute()
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Misconfigured(f"{directory} is there and not empty: name another folder, or delete it")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as temporary:
        made = Path(temporary) / "model"
        made.mkdir()
        await asyncio.to_thread(_make, request, settings, Path(temporary) / "source", made, progress)
        progress(_STEPS - 1, _STEPS, "comparing with torch")
        exported = await _verified(made, settings)
        made.replace(directory)
    progress(_STEPS, _STEPS, "done")
    return exported


def _make(request: Request, settings: ModelSettings, fetched: Path, made: Path, progress: Progress) -> None:
    """Write weights, tokenizer and manifest."""
    folder, source = _source(request, settings, fetched, progress)
    description = read_folder(
        folder,
        kind=request.kind,
        pooling=request.pooling,
        query_prefix=request.query_prefix,
        passage_prefix=request.passage_prefix,
        max_tokens=request.max_tokens,
    )
    if request.source == source.rpartition("@")[0]:
        description = description.model_copy(update={"name": request.source.rpartition("/")[2]})
    # After the checks above, which refuse without a wait: an import of several seconds.
    from freki.infra.models.export.torch_model import NAME, TorchModel  # noqa: PLC0415 - an extra

    progress(1, _STEPS, "running torch")
    model = TorchModel(folder, description)
    expected = _expected(model, description, NAME, TOLERANCES[request.precision, description.kind])
    progress(2, _STEPS, "exporting")
    model.write(made / WEIGHTS)
    # Its memory is needed for the comparison.
    del model
    shutil.copyfile(folder / TOKENIZER, made / TOKENIZER)
    progress(3, _STEPS, "quantising" if request.precision is Precision.INT8 else "writing")
    if request.precision is Precision.INT8:
        tokenizer = open_tokenizer(made / TOKENIZER)
        quantise(made / WEIGHTS, calibration(description, tokenizer, inputs_of(made / WEIGHTS)))
    else:
        strip(made / WEIGHTS)
    seal(
        made,
        description,
        fingerprint=_fingerprint(made, description),
        source=source,
        precision=request.precision,
        expected=expected,
    )


def _source(request: Request, settings: ModelSettings, fetched: Path, progress: Progress) -> tuple[Path, str]:
    """Return the folder of the model, and how the manifest names its source."""
    folder = Path(request.source).expanduser()
    if folder.is_dir():
        return folder, request.source
    if not _REPOSITORY.fullmatch(request.source):
        raise Misconfigured(f"{request.source} is no folder, and no repository such as intfloat/multilingual-e5-large")
    if not settings.allow_download:
        raise Misconfigured(
            f"{request.source} is no folder here: set FREKI_MODELS__ALLOW_DOWNLOAD=true to fetch it from the Hugging "
            "Face hub, or name the folder of a copy"
        )
    commit = fetch(request.source, request.revision, fetched, progress)
    return fetched, f"{request.source}@{commit}"


def _expected(model: "TorchModel", description: ModelDescription, by: str, tolerance: float) -> Expected:
    window = description.max_tokens
    if description.kind is ModelKind.RERANKER:
        pairs = pairs_beyond(window)
        scores = (
            ExpectedScore(query=query, text=text, score=float(score))
            for (query, text), score in zip(pairs, model.scores(pairs), strict=True)
        )
        return Expected(by=by, tolerance=tolerance, scores=tuple(scores))
    passages = passages_beyond(window)
    queries = model.vectors([description.query_prefix + text for text in QUERIES])
    texts = model.vectors([description.passage_prefix + text for text in passages])
    return Expected(
        by=by,
        tolerance=tolerance,
        vectors=(
            *(_vector("query", text, row) for text, row in zip(QUERIES, queries, strict=True)),
            *(_vector("passage", text, row) for text, row in zip(passages, texts, strict=True)),
        ),
    )


def _vector(role: Literal["query", "passage"], text: str, vector: Floats) -> ExpectedVector:
    return ExpectedVector(role=role, text=text, vector=tuple(round(float(number), _DIGITS) for number in vector))


def _fingerprint(directory: Path, description: ModelDescription) -> str:
    """Return the fingerprint of description and all files, before there is a manifest."""
    described = description.model_dump_json(exclude={"licence"})
    return fingerprint_by(description.name, described, sorted(directory.iterdir()))


async def _verified(directory: Path, settings: ModelSettings) -> ExportedModel:
    """Compare a directory with the expected outputs in its manifest. Raises Misconfigured where it deviates."""
    manifest = read_manifest(directory)
    expected = manifest.expected
    if expected is None:
        raise RuntimeError("an exported directory has expected outputs")
    if manifest.kind is ModelKind.RERANKER:
        async with OnnxReranker(settings.model_copy(update={"reranker": str(directory)})) as reranker:
            found = await score_deviations(reranker, expected)
    else:
        async with OnnxEmbedder(alone(settings, str(directory))) as embedder:
            found = await vector_deviations(embedder, expected)
    worst = worst_of(found)
    if not is_within(worst, expected.tolerance):
        advice = "try --precision=fp32" if manifest.precision == Precision.INT8 else "another version of torch may help"
        raise Misconfigured(
            f"{manifest.name} as {manifest.precision}: the output for {shown(worst.text)} is {worst.distance:.5f} away "
            f"from that of torch, {expected.tolerance} is allowed; nothing is written: {advice}"
        )
    return ExportedModel(
        manifest=manifest,
        worst=worst,
        mean=fmean(each.distance for each in found),
        tolerance=expected.tolerance,
        checks=len(found),
        size_bytes=sum(file.size_bytes for file in manifest.files.values()),
    )
