"""Training of the heads of late interaction, from pairs of questions and passages."""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from freki.infra.models.bert import LateInteractionHeads
from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.manifest import TOKENIZER, sha256_of
from freki.infra.models.tokenizer import open_tokenizer
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.provenance import provenance
from freki.schemas.arrays import Floats
from freki.schemas.errors import Rejected
from freki.schemas.names import record
from freki.training.cache import ArrayCache
from freki.training.dataset import Collection, Document
from freki.training.encoders import MAX_CHARS, Encoder, Stage, open_encoder, passages
from freki.training.heads import FILE, DistillationTargets, Network, distil, head_of, token_maps, write_heads
from freki.training.means import passage_means, query_means
from freki.training.pairs import read_material
from freki.training.rarity import rarity_of
from freki.training.run import Recipe, TrainingRun
from freki.training.states import HeadedText, LayerModel, open_layers

TOKEN_LAYER = 6
DISTILLED_LAYERS = (6, 9, 12)
TEACHER = "all-MiniLM-L6-v2"
TEACHER_LANGUAGE = "en"
"""Language of the texts that the teacher reads."""
_CHARS = 450
"""Characters of a passage that are imitated."""
_BLOCK = 64
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")

T = TypeVar("T")


@record
class Bench:
    """Models and cache of a training."""

    layers: LayerModel
    teacher: Encoder
    cache: ArrayCache
    stage: Stage


def train_all(
    data: Path, out: Path, recipe: Recipe, *, settings: ModelSettings, cache: ArrayCache, stage: Stage
) -> TrainingRun:
    """Read pairs, learn the heads, and write them into `out`.

    Raises Rejected for a folder without pairs, or without English ones, and OSError where `out` can be no folder.
    """
    made_at, started = datetime.now(UTC), time.monotonic()
    material = read_material(data, seed=recipe.seed)
    # Before hours of work, not after them.
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = open_tokenizer(obtain(settings, settings.embedder, ModelKind.EMBEDDER) / TOKENIZER)
    taught = [each for each in material.collections if each.language == TEACHER_LANGUAGE]
    if not taught:
        raise Rejected(f"{data} has no pairs in the language of the teacher: NAME-{TEACHER_LANGUAGE}.jsonl.zst")
    whole = [document.whole[:MAX_CHARS] for each in material.collections for document in each.documents]
    weights = rarity_of(tokenizer, whole)
    bench = Bench(
        layers=open_layers(settings, DISTILLED_LAYERS),
        teacher=open_encoder(settings, TEACHER),
        cache=cache,
        stage=stage,
    )
    tokens = token_maps(_token_states(material.collections, bench, recipe), recipe.token_dim)
    passages, queries = _distilled(taught[0], bench, recipe)
    heads = LateInteractionHeads(
        token_layer=TOKEN_LAYER,
        distilled_layers=DISTILLED_LAYERS,
        passages=head_of(tokens.passages, tokens.shift, passages),
        queries=head_of(tokens.queries, np.zeros_like(tokens.shift), queries),
        weights=weights,
        kept=_written(tokenizer),
    )
    write_heads(out / FILE, heads)
    return TrainingRun(
        format="freki training 2",
        made_at=made_at.isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - started, 1),
        made_with=provenance(),
        models=(bench.layers.fingerprint, bench.teacher.fingerprint),
        recipe=recipe,
        files=material.files,
        heads=sha256_of(out / FILE),
    )


def headed_text(document: Document) -> HeadedText:
    """Return the beginning of a document, with its title as heading."""
    whole = document.whole[:_CHARS]
    return HeadedText(whole, len(document.title) if whole.startswith(document.title) else 0)


def _token_states(collections: Sequence[Collection], bench: Bench, recipe: Recipe) -> Floats:
    """Return token states of a sample of passages in all languages, (tokens, hidden)."""
    rng = np.random.default_rng(recipe.seed)
    chosen = [headed_text(each) for one in collections for each in _some(one.documents, recipe.token_texts, rng)]
    hidden: slice | None = None
    found = []
    with bench.stage("token states", len(chosen)) as advance:
        for start in range(0, len(chosen), _BLOCK):
            block = chosen[start : start + _BLOCK]
            for _, each in bench.layers.passages(block):
                hidden = hidden or slice(0, each.states.shape[1] // len(DISTILLED_LAYERS))
                # The layer of tokens is the first of all.
                found.append(each.states[:, hidden].astype(np.float32))
            advance(len(block))
    return np.concatenate(found)


def _written(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Return which pieces are text, (pieces,): all but the special ones."""
    special = {place for place in map(tokenizer.token_to_id, _SPECIAL) if place is not None}
    kept = np.ones(tokenizer.get_vocab_size(), np.bool_)
    kept[sorted(special)] = False
    return kept


def _distilled(collection: Collection, bench: Bench, recipe: Recipe) -> tuple[Network, Network]:
    """Learn to imitate the teacher on passages, their headings, and questions."""
    rng = np.random.default_rng(recipe.seed)
    documents = list(_some(collection.documents, recipe.passages, rng))
    asked = list(_some(list(dict.fromkeys(each.text for each in collection.questions)), recipe.questions, rng))
    texts = [headed_text(each) for each in documents]
    # Questions resemble headings.
    short = [HeadedText(text) for text in asked]
    titles = [each.title for each in documents]
    with bench.stage("states", len(texts) + 2 * len(short)) as advance:
        long_means = passage_means(texts, bench.layers, bench.cache, advance)
        short_means = passage_means(short, bench.layers, bench.cache, advance)
        queries = query_means(asked, bench.layers, bench.cache, advance)
    with bench.stage(bench.teacher.fingerprint, 2 * len(texts) + len(short)) as advance:
        of_texts = passages([each.text for each in texts], bench.teacher, bench.cache, advance)
        of_titles = passages([title or "-" for title in titles], bench.teacher, bench.cache, advance)
        of_asked = passages(asked, bench.teacher, bench.cache, advance)
    titled = np.array([bool(each.heading_chars) for each in texts])
    return distil(
        DistillationTargets(
            np.concatenate([long_means.texts, long_means.headings[titled], short_means.texts]),
            np.concatenate([of_texts, of_titles[titled], of_asked]),
        ),
        DistillationTargets(queries, of_asked),
        dim=recipe.distilled_dim,
        units=recipe.units,
        rng=rng,
    )


def _some(values: Sequence[T], most: int, rng: np.random.Generator) -> Iterator[T]:
    """Yield at most `most` values, drawn at random, in their order."""
    return (values[place] for place in sorted(rng.permutation(len(values))[:most].tolist()))
