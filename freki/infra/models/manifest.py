"""The directory of a model: weights, tokenizer and a manifest with description and checksums."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from freki.infra.models.descriptions import ModelDescription, ModelKind, Pooling
from freki.schemas.errors import Misconfigured

MANIFEST = "manifest.json"
WEIGHTS = "model.onnx"
TOKENIZER = "tokenizer.json"
_HUB_WEIGHTS = "onnx/model.onnx"
_MODULES = {"Transformer", "Pooling", "Normalize"}


class FileDigest(BaseModel):
    """Size and checksum of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size_bytes: int = Field(ge=0)
    sha256: str


class ModelManifest(ModelDescription):
    """Manifest of the directory of a model."""

    fingerprint: str = ""
    """Empty in a directory made by hand; then computed from the files."""
    weights: str = WEIGHTS
    """Path within the directory."""
    files: Mapping[str, FileDigest] = {}
    """Checksums by path; empty in a directory made by hand, which is not verified."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(directory: Path, description: ModelDescription, *, fingerprint: str, weights: str = WEIGHTS) -> None:
    """Write the manifest of a finished directory, and make the directory readable by all."""
    files = {
        str(path.relative_to(directory)): FileDigest(size_bytes=path.stat().st_size, sha256=sha256_of(path))
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    manifest = ModelManifest(**description.model_dump(), fingerprint=fingerprint, weights=weights, files=files)
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
    described = manifest.model_dump_json(exclude={"licence", "files", "fingerprint"})
    digests = [sha256_of(directory / name) for name in (manifest.weights, TOKENIZER)]
    return f"{manifest.name}@{hashlib.sha256('|'.join([described, *digests]).encode()).hexdigest()[:12]}"


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


def _from_hub_files(directory: Path) -> ModelManifest:
    """Return the manifest derived from the files of sentence-transformers and transformers."""
    config = _json(directory, "config.json", default=None)
    if config is None:
        raise Misconfigured(f"{directory} is not a model's directory: neither {MANIFEST} nor config.json is there")
    is_reranker = any(name.endswith("ForSequenceClassification") for name in config.get("architectures") or ())
    prompts = _json(directory, "config_sentence_transformers.json").get("prompts") or {}
    try:
        return ModelManifest.model_validate(
            {
                "name": directory.resolve().name,
                "kind": ModelKind.RERANKER if is_reranker else ModelKind.EMBEDDER,
                "dim": None if is_reranker else config.get("hidden_size"),
                "max_tokens": _max_tokens(directory, config),
                "pooling": _pooling(directory),
                "query_prefix": prompts.get("query") or "",
                "passage_prefix": prompts.get("passage") or prompts.get("document") or "",
                "weights": WEIGHTS if (directory / WEIGHTS).is_file() else _HUB_WEIGHTS,
            }
        )
    except ValidationError as error:
        raise Misconfigured(f"{directory} lacks what a model's description needs: {error}") from error


def _max_tokens(directory: Path, config: Mapping[str, Any]) -> int | None:
    """Return the minimum of the limits in the files."""
    limits = [
        _json(directory, "sentence_bert_config.json").get("max_seq_length"),
        _json(directory, "tokenizer_config.json").get("model_max_length"),
        # RoBERTa counts positions from 2.
        (config.get("max_position_embeddings") or 0) - 2 * ("roberta" in str(config.get("model_type"))),
    ]
    return min((int(limit) for limit in limits if limit and limit > 0), default=None)


def _pooling(directory: Path) -> Pooling:
    modules = [module["type"].rsplit(".", 1)[-1] for module in _json(directory, "modules.json", default=[])]
    if unknown := set(modules) - _MODULES:
        raise Misconfigured(f"{directory}: Freki does not run the modules {', '.join(sorted(unknown))}")
    modes = {name for name, on in _json(directory, "1_Pooling/config.json").items() if on is True}
    modes = {name for name in modes if name.startswith("pooling_mode_")}
    if modes <= {"pooling_mode_mean_tokens"}:
        return Pooling.MEAN
    if modes == {"pooling_mode_cls_token"}:
        return Pooling.CLS
    raise Misconfigured(f"{directory}: Freki does not pool by {', '.join(sorted(modes))}")


def _json(directory: Path, name: str, default: Any = {}) -> Any:  # noqa: ANN401, B006 - JSON; never changed
    path = directory / name
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise Misconfigured(f"{path} is not JSON: {error}") from error
