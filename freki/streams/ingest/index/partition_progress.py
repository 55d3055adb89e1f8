"""Watermarks: how far each partition is indexed."""

from collections.abc import Sequence

from freki.schemas import Timestamp
from freki.schemas.index import Watermark
from freki.streams.ingest.index.pieces import Piece


class PartitionProgress:
    """Latest change that was committed of each partition."""

    def __init__(self) -> None:
        self._seen: dict[int, Timestamp] = {}

    def watermarks(self, pieces: Sequence[Piece], committed_at: Timestamp) -> list[Watermark]:
        """Advance the watermark of each partition, and return the new ones; they never decrease.

        A change of the future does not advance it: nothing is indexed through a time that is still to come.
        """
        for piece in pieces:
            seen, occurred_at = self._seen.get(piece.partition, Timestamp(0)), piece.revision.occurred_at
            self._seen[piece.partition] = seen if occurred_at > committed_at else max(seen, occurred_at)
        return [
            Watermark(partition=partition, occurred_at=self._seen[partition], committed_at=committed_at)
            for partition in sorted({piece.partition for piece in pieces})
        ]
