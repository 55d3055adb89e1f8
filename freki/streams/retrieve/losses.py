"""What became of each candidate: the orders after all steps, and which step left a candidate out, and why."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from freki.schemas import ChunkId
from freki.streams.retrieve.candidates import LocatedHits, Retrieval

FUSE = "fuse"
_LOSSES = {
    "load": "it stood too far down to be looked at closely, or its document has its share of the candidates",
    "rerank": "too many candidates answer the query better",
    "diversify": "it says what better hits say already, or too many candidates answer the query better",
}
"""Reasons of steps that record none."""

Orders = Sequence[tuple[str, Sequence[ChunkId]]]
"""Chunks that were left after each step, best first."""


def orders_of(hits: LocatedHits) -> Orders:
    """Return the order after each step, from fusion to the hits."""
    fused = (FUSE, [ranked.chunk_id for ranked in hits.search.ranked])
    return [fused, *hits.history.orders.items(), ("hits", [each.chunk_id for each in hits.found])]


def loss_in(hits: LocatedHits) -> Callable[[ChunkId], tuple[str, str]]:
    """Return what tells of a chunk that is no hit which step left it out, and why.

    That is what the step recorded, or else the first order that lacks the chunk.
    """
    recorded = hits.history.dropped.items()
    told = {chunk_id: loss for loss, chunk_ids in reversed(list(recorded)) for chunk_id in chunk_ids}
    left = [(step, frozenset(order)) for step, order in orders_of(hits)]

    def loss_of(chunk_id: ChunkId) -> tuple[str, str]:
        lost_at = next((step for step, order in left if chunk_id not in order), "hits")
        return told.get(chunk_id) or (lost_at, _LOSSES.get(lost_at, f"the step {lost_at} left it out"))

    return loss_of


def losses_of(retrieval: Retrieval) -> Mapping[tuple[str, str], Sequence[ChunkId]]:
    """Return all candidates that were found and are not shown, by the step that left them out and its reason.

    Each candidate is there once. Hits and further chunks are shown, also those that the context has no room for.
    """
    hits = retrieval.hits
    shown = {each.chunk_id for each in hits.found} | {each.entry.chunk_id for each in retrieval.further}
    found = dict.fromkeys(
        [
            *(hit.chunk_id for ranking in (*hits.search.dense, *hits.search.lexical) for hit in ranking),
            *(chunk_id for chunk_ids in hits.history.dropped.values() for chunk_id in chunk_ids),
        ]
    )
    loss_of = loss_in(hits)
    losses: defaultdict[tuple[str, str], list[ChunkId]] = defaultdict(list)
    for chunk_id in found:
        if chunk_id not in shown:
            losses[loss_of(chunk_id)].append(chunk_id)
    return losses
