"""What an encoder makes of documents, titles and questions: hybrid search needs it, and the student learns from it."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from freki.infra.models.e5s1 import Floats
from freki.infra.models.packing import pack
from freki.infra.models.session import Model
from freki.schemas.names import record
from freki.training.cache import Cache
from freki.training.material import Collection

Advance = Callable[[int], None]
"""Called with how many more are done."""

BLOCK = 1024
"""Texts that are kept together: what an interruption loses."""
MAX_CHARS = 900
"""Of a document: about as long as a chunk."""
_BATCH_TOKENS = 4096


@record
class Teacher:
    """An encoder of whole texts."""

    name: str
    fingerprint: str
    """Names its weights: other weights, other vectors."""
    languages: frozenset[str] | None
    """None: all of them."""
    embed: Callable[[Sequence[str]], Floats]
    """Gives vectors, (texts, dim), rows of length 1."""
    query_prefix: str = ""
    passage_prefix: str = ""

    def knows(self, language: str) -> bool:
        """Say whether its opinion of texts in a language counts."""
        return self.languages is None or language in self.languages


@record
class Vectors:
    """What a teacher makes of a collection; rows of length 1."""

    documents: Floats
    """(documents, dim)."""
    titles: Floats
    """(titles, dim)."""
    questions: Floats
    """(questions, dim)."""


def freki_teacher(model: Model) -> Teacher:
    """Let the embedder of hybrid search teach."""
    return Teacher(
        name=model.manifest.name,
        fingerprint=model.fingerprint,
        languages=None,
        embed=partial(_embed, model),
        query_prefix=model.manifest.query_prefix,
        passage_prefix=model.manifest.passage_prefix,
    )


def vectors_of(collection: Collection, teacher: Teacher, cache: Cache, advance: Advance) -> Vectors:
    """Embed a collection."""
    whole = [document.whole[:MAX_CHARS] for document in collection.documents]
    return Vectors(
        documents=passages(whole, teacher, cache, advance),
        titles=passages(collection.titles, teacher, cache, advance),
        questions=questions([question.text for question in collection.questions], teacher, cache, advance),
    )


def passages(texts: Sequence[str], teacher: Teacher, cache: Cache, advance: Advance) -> Floats:
    """Embed what is searched, (texts, dim)."""
    return _kept([teacher.passage_prefix + text for text in texts], teacher, cache, advance)


def questions(texts: Sequence[str], teacher: Teacher, cache: Cache, advance: Advance) -> Floats:
    """Embed what is asked, (texts, dim)."""
    return _kept([teacher.query_prefix + text for text in texts], teacher, cache, advance)


def _kept(texts: Sequence[str], teacher: Teacher, cache: Cache, advance: Advance) -> Floats:
    """Embed in blocks, each of which is read from the cache if it is there; 16 bits are kept."""
    blocks = [np.empty((0, 0), np.float32)]
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        kept = cache.get([teacher.fingerprint, *block], lambda: {"vectors": teacher.embed(block).astype(np.float16)})  # noqa: B023 - called at once
        blocks.append(kept["vectors"].astype(np.float32))
        advance(len(block))
    return np.concatenate(blocks[1:] or blocks)


def _embed(model: Model, texts: Sequence[str]) -> Floats:
    encodings = model.encode(texts)
    vectors = np.empty((len(texts), model.dim), np.float32)
    for batch in pack([len(encoding) for encoding in encodings], budget=_BATCH_TOKENS):
        vectors[batch] = model.vectors([encodings[place] for place in batch])
    return vectors
