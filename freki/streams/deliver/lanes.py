"""Lanes: urgent changes and deletions overtake small documents, and these overtake large ones.

A lane has topics of its own between the stages, so that nothing of it waits behind what is in another. All lanes begin
at the one topic of documents, which each reads whole. Changes of one document may lie in several lanes, and then the
version fence decides (`operators/fence.py`), in whatever order they arrive.
"""

from collections.abc import Callable
from enum import StrEnum

from freki.schemas import DocumentChange, Operation
from freki.schemas.avro import DamagedError
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


_EXPRESS = frozenset({Lane.EXPRESS})
_REGULAR = frozenset({Lane.REGULAR})
_UNDECIDED = _EXPRESS | _REGULAR


def lanes_of(record: Stored, decode: Callable[[bytes | None], DocumentChange | None]) -> frozenset[Lane]:
    """Say which lanes take a record of the documents topic: one, by nothing but the record; or both where that fails.

    Each lane judges for itself, at another time, and in a rolling upgrade with another release. A record that this
    process cannot decode may be one that the other lane decodes: the schema registry may know its schema by then, or
    that release its contract. So neither leaves such a record to the other. Usually neither can decode it, and it has
    two dead letters, one of each lane. Where only one can, it takes the record if it is its own; the letter of the
    other lane says that something was wrong, but nothing is lost. What no process can ever decode is REGULAR.
    """
    if record.key is None:
        return _REGULAR
    if record.value is None or priority_in(record.headers) > 0:
        return _EXPRESS
    try:
        change = decode(record.value)
    except DamagedError:
        return _REGULAR
    except Exception:  # noqa: BLE001 - of whatever kind
        return _UNDECIDED
    if change is None or change.operation is Operation.DELETE or change.priority > 0:
        return _EXPRESS
    return _REGULAR


def priority_in(headers: Headers) -> int:
    """Read the priority that headers give; 0 where they give none."""
    return number_in(headers, PRIORITY_HEADER)


def in_lane(name: str, lane: Lane) -> str:
    """Name what a lane has for itself; what the regular lane has needs no other name."""
    return name if lane is Lane.REGULAR else f"{name}-{lane}"
