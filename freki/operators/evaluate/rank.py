"""Ranking of documents by their best chunks, since judgements are of documents."""

from collections.abc import Sequence

from freki.schemas import ContextHit, DocumentId
from freki.schemas.names import record


@record
class RankedDocument:
    """A document in a ranking, with its best chunk."""

    document_id: DocumentId
    name: str
    score: float
    """Score of that chunk; because of diversification, rankings need not be sorted by it."""
    text: str


def rank_documents(hits: Sequence[ContextHit]) -> list[RankedDocument]:
    """Return each document once, in the order of its first hit; hits: best first."""
    best: dict[DocumentId, ContextHit] = {}
    for hit in hits:
        best.setdefault(hit.document_id, hit)
    return [
        RankedDocument(document_id=hit.document_id, name=hit.name, score=hit.score, text=hit.text)
        for hit in best.values()
    ]
