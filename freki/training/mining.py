"""Hybrid search in memory: dense and BM25, fused by weighted scores.

Unlike the store, dense search is exact, and documents are not chunked.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from freki.operators.analyse_text import analyse_text
from freki.operators.fuse import Hit, weighted_fusion
from freki.schemas import ChunkId
from freki.schemas.arrays import Floats
from freki.schemas.names import record
from freki.training.encoders import Advance

_DEPTH = 200
_WEIGHTS = (0.6, 0.4)
_BLOCK = 256
_TINY = 1e-9
# Defaults of Milvus.
_K1, _B = 1.2, 0.75


@record
class Candidates:
    """Candidates, best first; each array has shape (queries, candidates)."""

    places: NDArray[np.int32]
    """Indices of documents."""
    fused: Floats
    """Score of hybrid search, 0..1."""
    lexical: Floats
    """BM25 score as a share of that of the best document; 0 without common terms."""
    cosines: Floats
    """Cosine similarity of query and document."""


class Lexical:
    """BM25 over analysed texts. Source: Robertson and Zaragoza, FnTIR 2009, doi:10.1561/1500000019."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._terms: dict[str, int] = {}
        counts = self._counted(texts, grow=True).tocsr()
        lengths = np.asarray(counts.sum(axis=1)).reshape(-1)
        present = np.bincount(counts.indices, minlength=len(self._terms))
        telling = np.log1p((counts.shape[0] - present + 0.5) / (present + 0.5))
        norms = _K1 * (1 - _B + _B * lengths / max(1.0, lengths.mean()))
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        counts.data = counts.data * (_K1 + 1) / (counts.data + norms[rows]) * telling[counts.indices]
        self._weights = counts.T.tocsr()

    def scores(self, texts: Iterable[str]) -> Floats:
        """Score all documents for each text, (texts, documents)."""
        found: Floats = (self._counted(texts, grow=False) @ self._weights).toarray().astype(np.float32)
        return found

    def _counted(self, texts: Iterable[str], *, grow: bool) -> sparse.csr_matrix:
        rows, columns, values, row = [], [], [], -1
        for row, text in enumerate(texts):
            for term, count in Counter(text.split()).items():
                if grow:
                    self._terms.setdefault(term, len(self._terms))
                if term in self._terms:
                    rows.append(row)
                    columns.append(self._terms[term])
                    values.append(float(count))
        return sparse.csr_matrix((values, (rows, columns)), shape=(row + 1, len(self._terms)))


class HybridSearch:
    """A searchable collection of documents in one language."""

    def __init__(self, documents: Iterable[str], vectors: Floats, *, language: str) -> None:
        self._language = language
        self._vectors = vectors
        self._lexical = Lexical(self._analysed(documents))

    def find(self, questions: Sequence[str], vectors: Floats, *, width: int, advance: Advance) -> Candidates:
        """Return the best `width` candidates of each question, or all documents if there are fewer."""
        width = min(width, len(self._vectors))
        found = Candidates(
            places=np.empty((len(questions), width), np.int32),
            fused=np.empty((len(questions), width), np.float32),
            lexical=np.empty((len(questions), width), np.float32),
            cosines=np.empty((len(questions), width), np.float32),
        )
        for start in range(0, len(questions), _BLOCK):
            block = slice(start, start + _BLOCK)
            dense = vectors[block] @ self._vectors.T
            lexical = self._lexical.scores(self._analysed(questions[block]))
            for row, (by_vector, by_terms) in enumerate(zip(dense, lexical, strict=True), start=start):
                hits = weighted_fusion([_ranked(by_vector), _ranked(by_terms, above=0.0)], weights=_WEIGHTS)[:width]
                places = [int(hit.chunk_id) for hit in hits]
                found.places[row], found.fused[row] = places, [hit.score for hit in hits]
                found.lexical[row] = by_terms[places] / max(_TINY, by_terms.max())
                found.cosines[row] = by_vector[places]
            advance(len(dense))
        return found

    def _analysed(self, texts: Iterable[str]) -> Iterator[str]:
        return (analyse_text(text, language=self._language) for text in texts)


def _ranked(scores: Floats, *, above: float = -np.inf) -> list[Hit]:
    """Return the best documents, best first."""
    depth = min(_DEPTH, len(scores))
    best = np.argpartition(-scores, depth - 1)[:depth]
    best = best[np.lexsort((best, -scores[best]))]
    return [Hit(ChunkId(str(place)), float(scores[place])) for place in best if scores[place] > above]
