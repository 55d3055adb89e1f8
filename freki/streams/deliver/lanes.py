"""Lanes: urgent changes and deletions overtake small documents, and these overtake large ones.

Each lane has its own topics between the stages, so that its records never wait behind those of another lane. All lanes
begin at the documents topic, which each lane reads in full. Changes of one document may be in several lanes; the
version fence (`operators/fence.py`) makes the result independent of their order of arrival.
"""

from collections.abc import Callable
from enum import StrEnum

from freki.schemas import DocumentChange, Operation
from freki.schemas.avro import DamagedError
from freki.streams.messages import Headers, Stored, edition_in, number_in

PRIORITY_HEADER = "freki-priority"
"""Header with a decimal priority, for producers that cannot set the field of the change. The higher of both counts."""


class Lane(StrEnum):
    """Lane through the ingest stages, most urgent first."""

    EXPRESS = "express"
    """Deletions, and changes with a priority above 0."""
    REGULAR = "regular"
    """Everything else."""
    BULK = "bulk"
    """Documents whose chunks do not fit one part."""


_EXPRESS = frozenset({Lane.EXPRESS})
_REGULAR = frozenset({Lane.REGULAR})
_UNDECIDED = _EXPRESS | _REGULAR


def lanes_of(record: Stored, decode: Callable[[bytes | None], DocumentChange | None]) -> frozenset[Lane]:
    """Return the lanes that process a record of the documents topic: one, derived from the record alone, or both.

    Each lane decides independently, at a different time, and during a rolling upgrade with a different release. A
    record that this process cannot decode may be decodable in the other lane: the schema registry may have its schema
    by then, or the other release its contract. So both lanes accept such a record. Usually neither can decode it, and
    it gets two dead letters, one per lane. If only one lane can decode it, that lane processes the record if it belongs
    there; the dead letter of the other lane reports the problem, and nothing is lost. A record that no process can ever
    decode (DamagedError) is REGULAR.
    """
    if record.key is None:
        return _REGULAR
    # A version that is reindexed is searchable meanwhile, so it does not overtake what is not.
    may_overtake = not edition_in(record.headers)
    if record.value is None or (may_overtake and priority_in(record.headers) > 0):
        return _EXPRESS
    try:
        change = decode(record.value)
    except DamagedError:
        return _REGULAR
    except Exception:  # noqa: BLE001 - any decoding error leaves the lane open
        return _UNDECIDED
    is_urgent = change is None or change.operation is Operation.DELETE or (may_overtake and change.priority > 0)
    return _EXPRESS if is_urgent else _REGULAR


def priority_in(headers: Headers) -> int:
    """Return the priority in the headers; 0 if there is none."""
    return number_in(headers, PRIORITY_HEADER)


def in_lane(name: str, lane: Lane) -> str:
    """Return the name of a lane's topic, stage or group: the plain name for the regular lane, else with a suffix."""
    return name if lane is Lane.REGULAR else f"{name}-{lane}"
