from pathlib import Path

import numpy as np
import pytest

from freki.infra.models import ModelKind, ModelState, check_models, describe_models, ensure_built
from freki.infra.models.descriptions import (
    BundledSource,
    HubSource,
    KnownVector,
    ModelDescription,
    RegisteredModel,
    WheelSource,
)
from freki.infra.models.manifest import seal
from freki.infra.models.registry import MODELS
from freki.infra.settings import ModelSettings
from freki.schemas.errors import Misconfigured
from tests.unit.tiny_models import write_cross_encoder, write_hub_files, write_sentence_encoder


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_registered_model_is_pinned_described_and_licensed(model: RegisteredModel) -> None:
    description = model.description

    assert MODELS[description.name] is model
    assert set(description.licence.split(", ")) <= {"MIT", "Apache-2.0"}
    assert (description.dim is None) == (description.kind is ModelKind.RERANKER)
    for source in model.sources:
        match source:
            case HubSource(commit=commit, weights=weights):
                assert len(commit) == 40
                assert weights.endswith(".onnx")
            case WheelSource(sha256=sha256) | BundledSource(sha256=sha256):
                assert len(sha256) == 64


def test_vectors_of_different_sources_have_different_fingerprints() -> None:
    fingerprints = [model.fingerprint(source) for model in MODELS.values() for source in model.sources]

    assert len(set(fingerprints)) == len(fingerprints)


def test_models_are_listed_with_what_it_takes_to_use_them(tmp_path: Path) -> None:
    offline = {model.name: model.state for model in describe_models(ModelSettings(cache_dir=tmp_path))}
    online = describe_models(ModelSettings(cache_dir=tmp_path, allow_download=True))

    assert offline["multilingual-e5-small"] is ModelState.AVAILABLE
    assert offline["ms-marco-MiniLM-L6-v2"] is ModelState.NEEDS_DOWNLOAD
    assert {model.state for model in online} == {ModelState.AVAILABLE}
    assert all(model.size_bytes > 1_000_000 for model in online)


def test_a_directory_that_is_chosen_is_listed(tmp_path: Path) -> None:
    directory = write_cross_encoder(tmp_path / "own")

    listed = describe_models(ModelSettings(cache_dir=tmp_path, reranker=str(directory)))[-1]

    assert (listed.name, listed.kind, listed.state) == ("tiny-cross-encoder", ModelKind.RERANKER, ModelState.BUILT)
    assert listed.size_bytes == sum(path.stat().st_size for path in directory.iterdir())


async def test_all_chosen_models_are_made(tmp_path: Path) -> None:
    settings = ModelSettings(cache_dir=tmp_path, embedder=str(encoder(tmp_path)), reranker="ms-marco-MiniLM-L6-v2")

    with pytest.raises(Misconfigured, match="FREKI_MODELS__RERANKER"):
        await ensure_built(settings)
    await ensure_built(settings.model_copy(update={"reranker": None}))


def encoder(directory: Path) -> Path:
    write_sentence_encoder(directory / "encoder")
    write_hub_files(directory / "encoder")
    return directory / "encoder"


async def test_a_model_that_gives_the_known_numbers_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = await check_models(known(tmp_path, monkeypatch, off_by=0.0))

    assert not any("is off" in check.message for check in checks)
    assert all(check.tokens_per_s > 0 for check in checks)


async def test_a_model_that_gives_other_numbers_fails_and_says_by_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (check, _) = await check_models(known(tmp_path, monkeypatch, off_by=0.5))

    assert not check.ok
    assert "the vector of 'w5' is off by 0.5000, 0.01 is allowed" in check.message


def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, off_by: float) -> ModelSettings:
    """Register what a small model says of a text."""
    directory = encoder(tmp_path)
    table = write_sentence_encoder(directory)
    mean = table[[2, 5, 9, 3]].mean(axis=0)
    vector = mean / np.linalg.norm(mean)
    source = HubSource(
        repository="someone/encoder",
        commit="0" * 40,
        weights="onnx/model.onnx",
        size_bytes=5000,
        known=(KnownVector(text="w5", leading=(float(vector[0]) + off_by, float(vector[1])), tolerance=0.01),),
    )
    description = ModelDescription(
        name="encoder", kind=ModelKind.EMBEDDER, dim=8, max_tokens=32, query_prefix="w1 ", passage_prefix="w2 "
    )
    model = RegisteredModel(description=description, sources=(source,))
    monkeypatch.setitem(MODELS, "encoder", model)
    seal(directory, description, fingerprint=model.fingerprint(source), weights="onnx/model.onnx")
    reranker = write_cross_encoder(tmp_path / "reranker")
    return ModelSettings(cache_dir=tmp_path, embedder=str(directory), reranker=str(reranker), threads=1)
