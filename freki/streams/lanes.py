"""Lanes: urgent changes and deletions overtake small documents, and these overtake large ones.

A lane has topics of its own between the stages, so that nothing of it waits behind what is in another. All lanes begin
at the one topic of documents, which each reads whole. Changes of one document may lie in several lanes, and then the
version fence decides (`operators/fence.py`), in whatever order they arrive.
"""

from collections.abc import Callable
from enum import StrEnum

from freki.schemas import DocumentChange, Operation
from freki.streams.messages import Headers, Stored, number_in

PRIORITY_HEADER = "freki-priority"
"""Decimal; for producers that cannot set the field of the change. The higher of the two counts."""


class Lane(StrEnum):
    """A way through the stages of ingest, the most urgent one first."""

    EXPRESS = "express"
    """Deletions, and what its producer calls urgent."""
    REGULAR = "regular"
    """Everything else."""
    BULK = "bulk"
    """What turned out, when it was cut, to be too large for one part."""


def lane_of(record: Stored, decode: Callable[[bytes | None], DocumentChange | None]) -> Lane:
    """Say in which lane a record of the documents topic begins, by nothing but the record.

    What cannot be decoded is REGULAR: whoever takes it will say what is wrong with it.
    """
    if record.key is None:
        return Lane.REGULAR
    if record.value is None or priority_in(record.headers) > 0:
        return Lane.EXPRESS
    try:
        change = decode(record.value)
    except Exception:  # noqa: BLE001 - of whatever kind
        return Lane.REGULAR
    if change is None or change.operation is Operation.DELETE or change.priority > 0:
        return Lane.EXPRESS
    return Lane.REGULAR


def priority_in(headers: Headers) -> int:
    """Read the priority that headers give; 0 where they give none."""
    return number_in(headers, PRIORITY_HEADER)


def in_lane(name: str, lane: Lane) -> str:
    """Name what a lane has for itself; what the regular lane has needs no other name."""
    return name if lane is Lane.REGULAR else f"{name}-{lane}"
