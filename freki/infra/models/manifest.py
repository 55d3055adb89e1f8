"""The directory of a model: weights, tokenizer and a manifest with description and checksums."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from freki.infra.models.descriptions import ModelDescription, ModelKind, Pooling
from freki.schemas.errors import Misconfigured

MANIFEST = "manifest.json"
WEIGHTS = "model.onnx"
TOKENIZER = "tokenizer.json"
PIECES = "pieces.model"
"""The same vocabulary as a SentencePiece model with the special tokens of XLM-RoBERTa, where Freki wrote one."""
VOCABULARY = "vocabulary.npz"
"""Arrays by piece: `weights` in a query, and `kept` with a passage."""
CONFIG = "config.json"
_HUB_WEIGHTS = "onnx/model.onnx"
_MODULES = {"Transformer", "Pooling", "Normalize"}
_OFFSET_FAMILIES = ("roberta", "camembert", "mpnet", "longformer", "data2vec-text", "xmod", "ibert", "luke")
"""Parts of `model_type` of architectures that count positions from the one after the padding token's id."""
_ROBERTA_PAD_ID = 1


class FileDigest(BaseModel):
    """Size and checksum of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size_bytes: int = Field(ge=0)
    sha256: str


class ExpectedVector(BaseModel):
    """Vector of a text by the implementation that a model was exported from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["query", "passage"]
    text: str
    """Without the prefix."""
    vector: tuple[float, ...]
    """Of length 1."""


class ExpectedScore(BaseModel):
    """Score of a pair by the implementation that a model was exported from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str
    text: str
    score: float = Field(ge=0, le=1)


class Expected(BaseModel):
    """Outputs that a model must give, within a tolerance, wherever it runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str
    """Name and version of the other implementation."""
    tolerance: float = Field(gt=0)
    """Maximum cosine distance of a vector; maximum difference of a score."""
    vectors: tuple[ExpectedVector, ...] = ()
    scores: tuple[ExpectedScore, ...] = ()


class ModelManifest(ModelDescription):
    """Manifest of the directory of a model."""

    fingerprint: str = ""
    """Empty in a directory made by hand; then computed from the files."""
    weights: str = WEIGHTS
    """Path within the directory."""
    files: Mapping[str, FileDigest] = {}
    """Checksums by path; empty in a directory made by hand, which is not verified."""
    source: str = ""
    """Folder or repository, with its commit, that `freki models export` read."""
    precision: str = ""
    """`int8` or `fp32`, by `freki models export`."""
    expected: Expected | None = None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(
    directory: Path,
    description: ModelDescription,
    *,
    fingerprint: str,
    weights: str = WEIGHTS,
    source: str = "",
    precision: str = "",
    expected: Expected | None = None,
) -> None:
    """Write the manifest of a finished directory, and make the directory readable by all."""
    files = {
        str(path.relative_to(directory)): FileDigest(size_bytes=path.stat().st_size, sha256=sha256_of(path))
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    manifest = ModelManifest(
        **description.model_dump(),
        fingerprint=fingerprint,
        weights=weights,
        files=files,
        source=source,
        precision=precision,
        expected=expected,
    )
    (directory / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def read_manifest(directory: Path) -> ModelManifest:
    """Return the manifest of a directory, or one derived from the files of a Hugging Face repository.

    Raises Misconfigured for missing or invalid files.
    """
    path = directory / MANIFEST
    manifest = _from_manifest(path) if path.is_file() else _from_hub_files(directory)
    for needed in (manifest.weights, TOKENIZER):
        if not (directory / needed).is_file():
            raise Misconfigured(f"{directory} is not a model's directory: {needed} is missing")
    return manifest


def fingerprint_of(directory: Path, manifest: ModelManifest) -> str:
    """Return the fingerprint of the manifest, or a hash of the files where it has none."""
    if manifest.fingerprint:
        return manifest.fingerprint
    described = manifest.model_dump_json(include={*ModelDescription.model_fields, "weights"} - {"licence"})
    return fingerprint_by(manifest.name, described, [directory / name for name in (manifest.weights, TOKENIZER)])


def fingerprint_by(name: str, described: str, files: Iterable[Path]) -> str:
    """Return the fingerprint of a model by its description and the content of its files, in this order."""
    digests = map(sha256_of, files)
    return f"{name}@{hashlib.sha256('|'.join([described, *digests]).encode()).hexdigest()[:12]}"


def dim_of(description: ModelDescription) -> int:
    """Return the dimension of an embedder. Raises Misconfigured where the description lacks it."""
    if description.dim is None:
        raise Misconfigured(f"the {MANIFEST} of {description.name} lacks `dim`, the length of its vectors")
    return description.dim


def damage(directory: Path, manifest: ModelManifest) -> str | None:
    """Return the first file that differs from the manifest; None where all match."""
    for name, digest in manifest.files.items():
        path = directory / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != digest.size_bytes or sha256_of(path) != digest.sha256:
            return f"{name} is not what was written"
    return None


def _from_manifest(path: Path) -> ModelManifest:
    try:
        return ModelManifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise Misconfigured(f"{path} is not a model's manifest: {error}") from error


def describe_hub_files(
    directory: Path, *, kind: ModelKind | None = None, pooling: Pooling | None = None
) -> ModelDescription:
    """Return the description derived from the files of sentence-transformers and transformers.

    kind, pooling: in place of what the files say. Raises Misconfigured for missing or unsupported files.
    """
    config = read_json(directory, CONFIG, default=None)
    if config is None:
        raise Misconfigured(f"{directory} is not a model's directory: neither {MANIFEST} nor {CONFIG} is there")
    is_classifier = any(name.endswith("ForSequenceClassification") for name in config.get("architectures") or ())
    kind = kind or (ModelKind.RERANKER if is_classifier else ModelKind.EMBEDDER)
    prompts = read_json(directory, "config_sentence_transformers.json").get("prompts") or {}
    try:
        return ModelDescription.model_validate(
            {
                "name": directory.resolve().name,
                "kind": kind,
                "dim": None if kind is ModelKind.RERANKER else config.get("hidden_size"),
                "max_tokens": _max_tokens(directory, config),
                "pooling": pooling or _pooling(directory),
                "query_prefix": prompts.get("query") or "",
                "passage_prefix": prompts.get("passage") or prompts.get("document") or "",
            }
        )
    except ValidationError as error:
        raise Misconfigured(f"{directory} lacks what a model's description needs: {error}") from error


def _from_hub_files(directory: Path) -> ModelManifest:
    weights = WEIGHTS if (directory / WEIGHTS).is_file() else _HUB_WEIGHTS
    return ModelManifest(**describe_hub_files(directory).model_dump(), weights=weights)


def _max_tokens(directory: Path, config: Mapping[str, Any]) -> int | None:
    """Return the minimum of the limits in the files."""
    limits = [
        read_json(directory, "sentence_bert_config.json").get("max_seq_length"),
        read_json(directory, "tokenizer_config.json").get("model_max_length"),
        (config.get("max_position_embeddings") or 0) - _first_position(config),
    ]
    return min((int(limit) for limit in limits if limit and limit > 0), default=None)


def _first_position(config: Mapping[str, Any]) -> int:
    """Return the position of the first token: 2 in RoBERTa and its relatives, whose padding token has the id 1."""
    if not any(family in str(config.get("model_type")) for family in _OFFSET_FAMILIES):
        return 0
    pad_id = config.get("pad_token_id")
    return 1 + (_ROBERTA_PAD_ID if pad_id is None else int(pad_id))


def _pooling(directory: Path) -> Pooling:
    modules = [module["type"].rsplit(".", 1)[-1] for module in read_json(directory, "modules.json", default=[])]
    if unknown := set(modules) - _MODULES:
        raise Misconfigured(f"{directory}: Freki does not run the modules {', '.join(sorted(unknown))}")
    modes = {name for name, on in read_json(directory, "1_Pooling/config.json").items() if on is True}
    modes = {name for name in modes if name.startswith("pooling_mode_")}
    if modes <= {"pooling_mode_mean_tokens"}:
        return Pooling.MEAN
    if modes == {"pooling_mode_cls_token"}:
        return Pooling.CLS
    raise Misconfigured(f"{directory}: Freki does not pool by {', '.join(sorted(modes))}")


def read_json(directory: Path, name: str, default: Any = {}) -> Any:  # noqa: ANN401, B006 - JSON; never changed
    """Return the content of a JSON file; the default where it is missing. Raises Misconfigured for another one."""
    path = directory / name
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise Misconfigured(f"{path} is not JSON: {error}") from error
