"""What became of each candidate: the orders after all steps, and which step left a candidate out, and why."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from freki.schemas import ChunkId
from freki.streams.retrieve.candidates import LocatedHits, Retrieval

FUSE = "fuse"
_LOSSES = {
    "load": "it stood too far down to be looked at closely",
    "rerank": "too many candidates answer the query better",
    "diversify": "it says what better hits say already, or too many candidates answer the query better",
    "locate": "its document was replaced while it was being read",
    "recheck": "its document was replaced while the answer was made",
}
"""Reasons of steps that record none."""

Orders = Sequence[tuple[str, Sequence[ChunkId]]]
"""Chunks that were left after each step, best first."""


def orders_of(hits: LocatedHits) -> Orders:
    """Return the order after each step, from fusion to the hits."""
    fused = (FUSE, [ranked.chunk_id for ranked in hits.search.ranked])
    return [fused, *hits.history.orders.items(), ("hits", [each.chunk_id for each in hits.found])]


def reason_of(hits: LocatedHits, chunk_id: ChunkId, lost_at: str) -> str:
    """Return why the step `lost_at` left a chunk out."""
    dropped = hits.history.dropped.items()
    reasons = [f"{step}: {reason}" for (step, reason), chunk_ids in dropped if chunk_id in chunk_ids]
    return "; ".join(reasons) or _LOSSES.get(lost_at, f"the step {lost_at} left it out")


def losses_of(retrieval: Retrieval) -> Mapping[tuple[str, str], Sequence[ChunkId]]:
    """Return all candidates that were found and are not shown, by the step that left them out and its reason.

    Each candidate is there once. Hits and further chunks are shown, also those that the context has no room for.
    """
    hits = retrieval.hits
    shown = {each.chunk_id for each in hits.found} | {each.entry.chunk_id for each in retrieval.further}
    orders = orders_of(hits)
    left = [(step, frozenset(order)) for step, order in orders]
    found = dict.fromkeys(
        [
            *(hit.chunk_id for ranking in (*hits.search.dense, *hits.search.lexical) for hit in ranking),
            *(chunk_id for chunk_ids in hits.history.dropped.values() for chunk_id in chunk_ids),
        ]
    )
    told = {chunk_id: key for key, chunk_ids in reversed(list(hits.history.dropped.items())) for chunk_id in chunk_ids}
    losses: defaultdict[tuple[str, str], list[ChunkId]] = defaultdict(list)
    for chunk_id in found:
        if chunk_id not in shown:
            lost_at = next((step for step, order in left if chunk_id not in order), "hits")
            losses[told.get(chunk_id) or (lost_at, _LOSSES.get(lost_at, f"the step {lost_at} left it out"))].append(
                chunk_id
            )
    return losses
