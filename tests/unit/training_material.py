"""A little to learn from."""

import numpy as np
from numpy.typing import NDArray

from freki.training.batches import Studied
from freki.training.material import Collection, Document, Question, collection_of
from freki.training.mining import Candidates
from freki.training.targets import teachers_scores
from freki.training.teachers import Vectors

Floats = NDArray[np.float32]
_WORDS = ("haus", "hand", "hund", "baum", "boot", "brot", "tor", "turm", "tisch", "stein", "stadt", "see")


def small_collection(language: str = "de", *, size: int = 30, seed: int = 0) -> Collection:
    """Make documents of random words, of which two thirds have a heading, and a question for each."""
    rng = np.random.default_rng(seed)
    documents = tuple(
        Document(" ".join(rng.choice(_WORDS, 2)) if number % 3 else "", f"{number} " + " ".join(rng.choice(_WORDS, 9)))
        for number in range(size)
    )
    questions = tuple(
        Question("tiny", " ".join(rng.permutation(document.whole.split())[:5]), 1.0, number)
        for number, document in enumerate(documents)
    )
    return collection_of(language, documents, questions)


def studied(collection: Collection, *, dim: int = 64, width: int = 20, second: bool = True, seed: int = 0) -> Studied:
    """Make up candidates and teachers, whose vectors tell which words texts share."""
    rng = np.random.default_rng(seed)
    table = {word: rng.normal(size=dim) for word in (*_WORDS, *map(str, range(len(collection.documents))))}

    def embedded(texts: list[str]) -> Floats:
        sums = np.array([sum((table[word] for word in text.split()), np.zeros(dim)) for text in texts]).reshape(-1, dim)
        vectors: Floats = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)
        return vectors

    vectors = Vectors(
        documents=embedded([document.whole for document in collection.documents]),
        titles=embedded(list(collection.titles)),
        questions=embedded([question.text for question in collection.questions]),
    )
    cosines = vectors.questions @ vectors.documents.T
    places = np.argsort(-cosines, axis=1)[:, :width].astype(np.int32)
    answers = np.array([question.answer for question in collection.questions], np.int32)
    missing = ~(places == answers[:, None]).any(axis=1)
    places[missing, -1] = answers[missing]
    found = np.take_along_axis(cosines, places, axis=1)
    candidates = Candidates(places=places, fused=np.clip(found, 0, 1), cosines=found)
    other = vectors if second else None
    return Studied(
        collection=collection,
        candidates=candidates,
        scores=teachers_scores(collection, candidates, vectors, other),
        first=vectors,
        second=other,
    )
