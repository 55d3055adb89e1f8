"""Metrics of a reranker: fixed candidates of hybrid search, before and after reranking.

Unlike `freki eval`, documents are not chunked, and only the reranker determines the order.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freki.infra.evaluation_sets.beir import read_beir
from freki.operators.detect_language import detect_language
from freki.operators.evaluate import Comparison, Mean, compare, judge_rankings, summarise
from freki.schemas import DocumentId
from freki.schemas.arrays import Floats
from freki.schemas.evaluation import CorpusDocument, EvaluationSet, Question
from freki.schemas.index import RerankPair
from freki.schemas.names import record
from freki.training.cache import ArrayCache, hash_of
from freki.training.calibrate import Bin, calibration_of, error_of
from freki.training.dataset import Document
from freki.training.encoders import Advance, Encoder, Stage, passages, questions
from freki.training.features import pair_of
from freki.training.mining import Candidates, HybridSearch

DEPTHS = (16, 32, 64)
"""Numbers of reranked candidates."""
USUAL = 32
_FOUND = 100
_SEED = 20_240_501
_SAMPLED = 50


@record
class Reranked:
    """Metrics for one number of candidates."""

    means: Mapping[str, Mean]
    against_hybrid: Mapping[str, Comparison]


@record
class SetFigures:
    """Metrics of one set."""

    name: str
    fingerprint: str
    """Fingerprint of documents, questions and judgements."""
    documents: int
    questions: int
    language: str
    hybrid: Mapping[str, Mean]
    """Metrics in the order of hybrid search."""
    reranked: Mapping[int, Reranked]
    """Metrics by number of reranked candidates."""
    calibration: tuple[Bin, ...]
    """Calibration of the first 32 candidates; unjudged ones count as irrelevant."""
    error: float
    """Expected calibration error (ECE)."""


@record
class Figures:
    """Metrics of several sets."""

    format: Literal["freki reranker figures 1"]
    reranker: str
    """Fingerprint of the model."""
    embedder: str
    """Fingerprint of the model."""
    sets: tuple[SetFigures, ...]


Score = Callable[[Sequence[RerankPair]], Awaitable[Sequence[float | None]]]
"""Returns scores of pairs, 0..1."""


class Searched(NamedTuple):
    """A set with the candidates of its questions."""

    examined: EvaluationSet
    questions: tuple[Question, ...]
    """Evaluated questions."""
    documents: list[Document]
    ids: list[DocumentId]
    language: str
    candidates: Candidates

    def pairs(self, number: int, count: int) -> list[RerankPair]:
        """Return the pairs of the best candidates of a question."""
        found = self.candidates
        places = found.places[number, :count]
        return [
            pair_of(self.questions[number].text, self.documents[place], self.language, found, (number, rank))
            for rank, place in enumerate(places)
        ]

    def ranking(self, number: int, scores: Floats) -> list[DocumentId]:
        """Return the documents of a question: scored ones, best first, then the others as retrieved."""
        order = np.arange(self.candidates.places.shape[1])
        order[: len(scores)] = np.argsort(-scores, kind="stable")
        return [self.ids[place] for place in self.candidates.places[number, order]]


def search_set(directory: Path, embedder: Encoder, cache: ArrayCache, stage: Stage, *, most: int | None) -> Searched:
    """Read a BEIR-like set and retrieve candidates for its questions, for every n-th if there are more than `most`.

    Raises Rejected for an invalid set.
    """
    examined = read_beir(directory)
    step = 1 if most is None else math.ceil(len(examined.questions) / most)
    asked = examined.questions[::step]
    documents = [_document(each) for each in examined.corpus or ()]
    language = detect_language("\n".join(document.whole for document in documents[:_SAMPLED]))
    whole = [document.whole for document in documents]
    texts = [question.text for question in asked]
    with stage(f"{examined.name}: embedding", len(whole) + len(texts)) as advance:
        search = HybridSearch(whole, passages(whole, embedder, cache, advance), language=language)
        vectors = questions(texts, embedder, cache, advance)
    with stage(f"{examined.name}: searching", len(texts)) as advance:
        candidates = search.find(texts, vectors, width=_FOUND, advance=advance)
    return Searched(
        examined=examined,
        questions=asked,
        documents=documents,
        ids=[each.document_id for each in examined.corpus or ()],
        language=language,
        candidates=candidates,
    )


async def examine(searched: Searched, score: Score, advance: Advance) -> SetFigures:
    """Rerank the candidates of each question, and compare with the order of retrieval."""
    scores = []
    for number in range(len(searched.questions)):
        scores.append(np.array(await score(searched.pairs(number, max(DEPTHS))), np.float32))
        advance(1)
    hybrid = _judged(searched, [row[:0] for row in scores])
    reranked = {depth: _judged(searched, [row[:depth] for row in scores]) for depth in DEPTHS}
    bins = calibration_of(
        np.concatenate([row[:USUAL] for row in scores]),
        np.concatenate([_right(searched, number)[: len(row)][:USUAL] for number, row in enumerate(scores)]),
    )
    return SetFigures(
        name=searched.examined.name,
        fingerprint=_fingerprint(searched.examined),
        documents=len(searched.documents),
        questions=len(searched.questions),
        language=searched.language,
        hybrid=summarise(list(hybrid.values()), seed=_SEED),
        reranked={
            depth: Reranked(
                means=summarise(list(figures.values()), seed=_SEED),
                against_hybrid=compare(hybrid, figures, seed=_SEED),
            )
            for depth, figures in reranked.items()
        },
        calibration=bins,
        error=error_of(bins),
    )


def _judged(searched: Searched, scores: Sequence[Floats]) -> dict[str, dict[str, float]]:
    rankings = {each.question_id: searched.ranking(at, scores[at]) for at, each in enumerate(searched.questions)}
    return judge_rankings(rankings, {each.question_id: each.judgements or {} for each in searched.questions})


def _right(searched: Searched, number: int) -> NDArray[np.bool_]:
    """Return which candidates of a question are relevant."""
    judgements = searched.questions[number].judgements or {}
    return np.array([judgements.get(searched.ids[place], 0) > 0 for place in searched.candidates.places[number]])


def _document(published: CorpusDocument) -> Document:
    """Return the document with title and text separated."""
    content = str(published.content)
    if published.name is None:
        return Document("", content.strip())
    heading, _, text = content.partition("\n\n")
    return Document(heading.removeprefix("# "), text.strip())


def _fingerprint(examined: EvaluationSet) -> str:
    documents = (f"{each.document_id}\n{each.content!s}" for each in examined.corpus or ())
    asked = (
        f"{each.question_id}\n{each.text}\n{sorted((each.judgements or {}).items())}" for each in examined.questions
    )
    return hash_of([*documents, *asked])[:16]
