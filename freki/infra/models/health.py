"""Lists models, and verifies the output of the chosen ones."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from freki.infra.models.cache import cached, is_obtainable, kind_embedder_identities, kinds_by_embedder, obtain
from freki.infra.models.descriptions import (
    BundledSource,
    HubSource,
    KnownScore,
    KnownVector,
    ModelDescription,
    ModelKind,
    RegisteredModel,
    Source,
)
from freki.infra.models.deviations import Deviation, is_within, score_deviations, shown, vector_deviations
from freki.infra.models.embedder import OnnxEmbedder
from freki.infra.models.manifest import MANIFEST, Expected, read_manifest
from freki.infra.models.multi_embedder import alone
from freki.infra.models.progress import Progress, unseen
from freki.infra.models.registry import MODELS, known_of
from freki.infra.models.remote import RemoteEmbedder
from freki.infra.models.reranker import OnnxReranker, sigmoid
from freki.infra.models.weights import bundled_file, wheel_file
from freki.infra.settings import REMOTE, ModelSettings
from freki.schemas.index import RerankPair

_QUESTION = "Wie hoch ist die Zugspitze?"
_ANSWER = "Die Zugspitze ist mit 2962 Metern der höchste Berg Deutschlands."
_OTHER = "Der Vermieter muss die Mietsache in einem geeigneten Zustand überlassen."


class ModelState(StrEnum):
    """Availability of a model."""

    BUILT = "built"
    AVAILABLE = "available"
    """Built on first use."""
    NEEDS_DOWNLOAD = "needs download"
    """FREKI_MODELS__ALLOW_DOWNLOAD is off, and there is no other source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A row of `freki models`."""

    name: str
    kind: ModelKind
    dim: int | None
    state: ModelState
    size_bytes: int
    """Size on disk; of the source where it is not built."""
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """Result of the check of a model."""

    name: str
    ok: bool
    tokens_per_s: float
    message: str


def describe_models(settings: ModelSettings) -> list[ModelInfo]:
    """Return the models of the registry, then directories chosen by the settings."""
    names = [settings.embedder, *kinds_by_embedder(settings), settings.cross_encoder]
    chosen = [name for name in names if name and name not in MODELS and name != REMOTE]
    directories = [Path(name).expanduser() for name in chosen]
    return [
        *(_registered(settings, model) for model in MODELS.values()),
        *(_info(read_manifest(path), ModelState.BUILT, _size(path)) for path in directories if path.is_dir()),
    ]


async def ensure_built(settings: ModelSettings, progress: Progress = unseen) -> None:
    """Build or download the chosen models if they are not in the cache. Raises as `obtain` does."""
    for chosen, kind in _chosen(settings):
        await asyncio.to_thread(obtain, settings, chosen, kind, progress)


async def check_models(settings: ModelSettings) -> list[ModelCheck]:
    """Run known texts through the chosen models, and compare the output with known values."""
    # Errors name the setting.
    kind_embedder_identities(settings)
    checks = [await _check_embedder(settings)]
    checks += [await _check_embedder(alone(settings, chosen)) for chosen in kinds_by_embedder(settings)]
    if settings.cross_encoder:
        checks.append(await _check_reranker(settings))
    return checks


def _chosen(settings: ModelSettings) -> Iterator[tuple[str, ModelKind]]:
    if settings.embedder != REMOTE:
        yield settings.embedder, ModelKind.EMBEDDER
    # Errors name the setting.
    kind_embedder_identities(settings)
    for chosen in kinds_by_embedder(settings):
        yield chosen, ModelKind.EMBEDDER
    if settings.cross_encoder:
        yield settings.cross_encoder, ModelKind.RERANKER


def _registered(settings: ModelSettings, model: RegisteredModel) -> ModelInfo:
    for source in model.sources:
        directory = cached(settings, model, source)
        if (directory / MANIFEST).is_file():
            return _info(model.description, ModelState.BUILT, _size(directory))
        if is_obtainable(settings, source):
            return _info(model.description, ModelState.AVAILABLE, _source_size(source))
    sizes = [source.size_bytes for source in model.sources if isinstance(source, HubSource)]
    return _info(model.description, ModelState.NEEDS_DOWNLOAD, max(sizes, default=0))


def _info(description: ModelDescription, state: ModelState, size_bytes: int) -> ModelInfo:
    return ModelInfo(
        name=description.name,
        kind=description.kind,
        dim=description.dim,
        state=state,
        size_bytes=size_bytes,
        licence=description.licence,
    )


def _source_size(source: Source) -> int:
    if isinstance(source, HubSource):
        return source.size_bytes
    file = bundled_file(source) if isinstance(source, BundledSource) else wheel_file(source)
    return file.stat().st_size if file else 0


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


async def _check_embedder(settings: ModelSettings) -> ModelCheck:
    if settings.embedder == REMOTE:
        return await _check_remote(settings)
    async with OnnxEmbedder(settings) as embedder:
        model = embedder.model
        wrong = await _told_apart(embedder)
        known = [each for each in known_of(model.fingerprint) if isinstance(each, KnownVector)]
        vectors = (await embedder.embed_queries([each.text for each in known])).vectors
        for each, vector in zip(known, vectors, strict=True):
            difference = float(np.abs(vector[: len(each.leading)] - each.leading).max())
            if difference > each.tolerance:
                wrong.append(f"the vector of {each.text!r} is off by {difference:.4f}, {each.tolerance} is allowed")
        expected = model.manifest.expected
        deviations = await vector_deviations(embedder, expected) if expected else []
        wrong += _beyond(deviations, expected)
        rate = await _rate(embedder)
    return _check(model.manifest.name, wrong, len(known) + len(deviations), rate)


async def _check_remote(settings: ModelSettings) -> ModelCheck:
    async with RemoteEmbedder(settings) as embedder:
        return _check(embedder.fingerprint, await _told_apart(embedder), 0, await _rate(embedder))


async def _told_apart(embedder: OnnxEmbedder | RemoteEmbedder) -> list[str]:
    (question,) = (await embedder.embed_queries([_QUESTION])).vectors
    answer, other = (await embedder.embed_passages([_ANSWER, _OTHER])).vectors
    return [] if question @ answer > question @ other else ["another text is closer to a question than its answer"]


async def _rate(embedder: OnnxEmbedder | RemoteEmbedder) -> float:
    """Return the tokens embedded in a second."""
    texts = [_ANSWER * 8] * 32
    started = time.monotonic()
    await embedder.embed_passages(texts)
    return sum(embedder.count_tokens(texts)) / (time.monotonic() - started)


async def _check_reranker(settings: ModelSettings) -> ModelCheck:
    async with OnnxReranker(settings) as reranker:
        model = reranker.model
        known = [each for each in known_of(model.fingerprint) if isinstance(each, KnownScore)]
        texts = [(_QUESTION, _ANSWER), (_QUESTION, _OTHER), *((each.query, each.text) for each in known)]
        pairs = [_pair(query, text) for query, text in texts]
        answer, other, *scores = [score or 0.0 for score in await reranker.score(pairs, budget_s=None)]
        wrong = [] if answer > other else ["another text scores above the answer"]
        for each, score in zip(known, scores, strict=True):
            low, high = (sigmoid(np.float32(each.logit + side * each.tolerance)) for side in (-1, 1))
            if not low <= score <= high:
                wrong.append(f"{each.text[:40]!r} scores {score:.4f}, not {low:.4f} to {high:.4f}")
        expected = model.manifest.expected
        deviations = await score_deviations(reranker, expected) if expected else []
        wrong += _beyond(deviations, expected)
    return _check(model.manifest.name, wrong, len(known) + len(deviations), reranker.tokens_per_s)


def _beyond(deviations: list[Deviation], expected: Expected | None) -> list[str]:
    """Return a message for each output that deviates too far from the expected one."""
    return [
        f"{shown(each.text)} is {each.distance:.4f} away from {expected.by}, {expected.tolerance} is allowed"
        for each in deviations
        if expected and not is_within(each, expected.tolerance)
    ]


def _pair(query: str, text: str) -> RerankPair:
    return RerankPair(query=query, heading="", text=text)


def _check(name: str, wrong: list[str], known: int, tokens_per_s: float) -> ModelCheck:
    right = f"agrees with {known} known numbers" if known else "tells an answer from another text"
    return ModelCheck(name=name, ok=not wrong, tokens_per_s=tokens_per_s, message="; ".join(wrong) or right)
