"""Hits are chunks, judgements are of documents: a document stands where its best chunk does."""

from collections.abc import Mapping, Sequence

from freki.schemas import ContextHit, DocumentId
from freki.schemas.names import record


@record
class RankedDocument:
    """A document in a ranking, with the chunk that brought it there."""

    document_id: DocumentId
    name: str
    score: float
    """Of that chunk. A ranking need not descend by it: diversity has a say too."""
    text: str


def rank_documents(hits: Sequence[ContextHit]) -> list[RankedDocument]:
    """Return each document once, in the order of its first hit; hits are given best first."""
    best: dict[DocumentId, ContextHit] = {}
    for hit in hits:
        best.setdefault(hit.document_id, hit)
    return [
        RankedDocument(document_id=hit.document_id, name=hit.name, score=hit.score, text=hit.text)
        for hit in best.values()
    ]


def first_relevant(ranking: Sequence[DocumentId], judgements: Mapping[DocumentId, int]) -> int | None:
    """Return the 1-based place of the first document with a grade above 0; None where there is none."""
    return next((rank for rank, name in enumerate(ranking, start=1) if judgements.get(name, 0) > 0), None)
