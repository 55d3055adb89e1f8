"""The training pipeline, for each route of the reranker."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.interaction import ENGLISH, PIECE_WEIGHTS
from freki.infra.models.manifest import TOKENIZER, sha256_of
from freki.infra.models.progress import unseen
from freki.infra.models.reranker import sigmoid
from freki.infra.models.tokenizer import open_tokenizer
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.provenance import provenance
from freki.schemas.arrays import Floats
from freki.schemas.errors import Rejected
from freki.schemas.index import RerankPair
from freki.schemas.names import record
from freki.training.cache import ArrayCache
from freki.training.calibrate import calibration_of, error_of, platt
from freki.training.dataset import Collection
from freki.training.encoders import MAX_CHARS, Encoder, Stage, open_encoder, passages, questions
from freki.training.examples import Example, drawn, hold_out
from freki.training.features import Sum, open_sums, pair_of
from freki.training.mining import HybridSearch
from freki.training.pairs import read_material
from freki.training.rarity import rarity_of
from freki.training.run import Recipe, RouteRun, TrainingRun, Weighing
from freki.training.weigh import Listed, weigh

_BLOCK = 16
"""Queries per cached block of features, which bounds the loss by an interruption."""


@record
class Bench:
    """Resources for computing features."""

    encoder: Encoder
    cache: ArrayCache
    stage: Stage
    candidates: int

    def lists(self, collection: Collection, numbers: Sequence[int], route: Sum) -> list[Listed]:
        """Return the candidates of some queries of a collection with their features."""
        if not numbers:
            return []
        language = collection.language
        whole = [document.whole[:MAX_CHARS] for document in collection.documents]
        texts = [collection.questions[number].text for number in numbers]
        with self.stage(f"{language}: embedding", len(whole) + len(texts)) as advance:
            documents = passages(whole, self.encoder, self.cache, advance)
            vectors = questions(texts, self.encoder, self.cache, advance)
        with self.stage(f"{language}: searching", len(texts)) as advance:
            search = HybridSearch(whole, documents, language=language)
            found = search.find(texts, vectors, width=self.candidates, advance=advance)
        pairs = [
            [
                pair_of(text, collection.documents[place], language, found, (row, rank))
                for rank, place in enumerate(found.places[row])
            ]
            for row, text in enumerate(texts)
        ]
        answers = np.array([collection.questions[number].answer for number in numbers])
        right = found.places == answers[:, None]
        return [Listed(*each) for each in zip(self._features(pairs, route, language), right, strict=True)]

    def _features(self, pairs: Sequence[Sequence[RerankPair]], route: Sum, language: str) -> list[Floats]:
        found: list[Floats] = []
        with self.stage(f"{language}: {route.parts[2]}", len(pairs)) as advance:
            for start in range(0, len(pairs), _BLOCK):
                block = pairs[start : start + _BLOCK]
                decided_by = [route.fingerprint, *route.parts, *(str(pair) for row in block for pair in row)]
                kept = self.cache.get(decided_by, partial(_described, block, route))
                found += list(kept["features"])
                advance(len(block))
        return found


def train_all(
    data: Path, out: Path, recipe: Recipe, *, settings: ModelSettings, cache: ArrayCache, stage: Stage
) -> TrainingRun:
    """Read pairs, learn the weights of pieces, written into `out`, and those of each route.

    Raises Rejected for a folder without pairs or with too few.
    """
    made_at, started = datetime.now(UTC), time.monotonic()
    material = read_material(data, seed=recipe.seed)
    tokenizer = open_tokenizer(obtain(settings, settings.embedder, ModelKind.EMBEDDER, unseen) / TOKENIZER)
    whole = [document.whole[:MAX_CHARS] for each in material.collections for document in each.documents]
    piece_weights = rarity_of(tokenizer, whole).astype(np.float16)
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / PIECE_WEIGHTS, piece_weights, allow_pickle=False)
    english, other = open_sums(settings, piece_weights.astype(np.float32))
    bench = Bench(encoder=open_encoder(settings), cache=cache, stage=stage, candidates=recipe.candidates)
    try:
        routes = train(material.collections, english, other, bench, recipe)
    except ValueError as error:
        raise Rejected(f"{data} has too little to learn from: {error}") from error
    return TrainingRun(
        format="freki training 1",
        made_at=made_at.isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - started, 1),
        made_with=provenance(),
        models=tuple(dict.fromkeys([bench.encoder.fingerprint, english.fingerprint, other.fingerprint])),
        recipe=recipe,
        files=material.files,
        routes=tuple(routes),
        piece_weights=sha256_of(out / PIECE_WEIGHTS),
    )


def train(collections: Sequence[Collection], english: Sum, other: Sum, bench: Bench, recipe: Recipe) -> list[RouteRun]:
    """Learn the weights of each route, and evaluate them on held-out queries.

    Raises ValueError where a route has too few examples.
    """
    rng = np.random.default_rng(recipe.seed)
    rest, held = hold_out(collections, recipe.held_out, rng)
    learned = drawn(collections, rest, recipe.lists, rng)
    runs = []
    for route in (english, other):
        taken = [at for at, each in enumerate(collections) if (each.language == ENGLISH) == (route is english)]
        lists: tuple[list[Listed], list[Listed]] = ([], [])
        for at in taken:
            parts = [_of(at, learned), _of(at, held)]
            described = bench.lists(collections[at], [*parts[0], *parts[1]], route)
            lists[0].extend(described[: len(parts[0])])
            lists[1].extend(described[len(parts[0]) :])
        if taken:
            runs.append(learn(route, *lists, languages=[collections[at].language for at in taken]))
    return runs


def learn(route: Sum, learned: Sequence[Listed], held: Sequence[Listed], *, languages: Iterable[str]) -> RouteRun:
    """Learn weights from training lists, and evaluate them on held-out ones. Raises ValueError for too few."""
    return RouteRun(
        languages=tuple(languages),
        learned_from=len(learned),
        held_out=len(held),
        mrr_found=_mrr(each.right for each in held),
        served=_judged(route, route.weights, held),
        learned=_judged(route, weigh(learned), held),
    )


def _judged(route: Sum, weights: Sequence[float], held: Sequence[Listed]) -> Weighing:
    sums = [each.features @ np.array(weights, np.float32) for each in held]
    slope, shift = _calibrated(sums, held)
    return Weighing(
        weights=dict(zip(route.parts, weights, strict=True)),
        slope=slope,
        shift=shift,
        mrr=_mrr(each.right[np.argsort(-row, kind="stable")] for row, each in zip(sums, held, strict=True)),
        error=_error(sums, held),
    )


def _error(sums: Sequence[Floats], held: Sequence[Listed]) -> float:
    """Return the calibration error by two-fold cross-validation."""
    halves = (slice(0, None, 2), slice(1, None, 2))
    found = []
    for half, other in (halves, halves[::-1]):
        slope, shift = _calibrated(sums[half], held[half])
        scores = sigmoid(np.float32(slope) * np.concatenate(sums[other]) + np.float32(shift))
        found.append(error_of(calibration_of(scores, np.concatenate([each.right for each in held[other]]))))
    return sum(found) / len(found)


def _calibrated(sums: Sequence[Floats], lists: Sequence[Listed]) -> tuple[float, float]:
    return platt(np.concatenate(sums), np.concatenate([each.right for each in lists]))


def _described(pairs: Sequence[Sequence[RerankPair]], route: Sum) -> dict[str, Floats]:
    return {"features": np.stack([route.features(row) for row in pairs])}


def _of(collection: int, examples: Sequence[Example]) -> list[int]:
    return [example.question for example in examples if example.collection == collection]


def _mrr(found: Iterable[NDArray[np.bool_]]) -> float:
    """Return the mean reciprocal rank of relevance flags, best first; 0 where there is none."""
    return float(np.mean([1 / (1 + int(right.argmax())) if right.any() else 0.0 for right in found]))
