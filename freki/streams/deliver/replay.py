"""Rules for the replay of dead letters: none may replace a newer state of a document by an older one.

The documents topic is compacted: the last record of a key stays, and every new generation of the index starts from it.
So a dead letter is replayed there only while its record is the last one of its document. Dead letters of later topics
are checked against the documents topic too: the index purges deletions after a while, and would accept an old revision
as a new document.

A producer may publish a change between the check and the replay. Its change is then not the last record of its key, but
the version fence of every index that holds it keeps it in force.
"""

from collections.abc import AsyncIterable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from freki.schemas import DocumentChange, Operation, Revision, Timestamp
from freki.schemas.names import record
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.key_order import KeyOrder
from freki.streams.messages import Stored, recorded_at, version_in

Place = tuple[str, int, int]
"""Topic, partition, offset."""


@record
class Latest:
    """State of a document on the documents topic."""

    partition: int
    offset: int
    """Offset of its last record."""
    recorded_at: Timestamp
    """First recording of that record."""
    version: int
    """Highest version of all its records; 0 if unknown."""
    deleted: bool
    """Whether its last record is a deletion."""


class Refusal(NamedTuple):
    """Why a record is not sent again."""

    reason: str
    superseded: bool = False
    """Whether a later record of its document made it void, so that it never may be."""
    sent_before: bool = False
    """Whether it was sent again already."""


_GONE = Refusal("the documents topic has no record of its document any more: it was deleted since", superseded=True)


def place_of(letter: DeadLetter) -> Place:
    """Return the position of a dead letter's original record."""
    return letter.topic, letter.partition, letter.offset


async def latest_of(
    keys: Collection[bytes], records: AsyncIterable[Stored], decode: Callable[[bytes], DocumentChange]
) -> dict[bytes, Latest]:
    """Return the state of documents on the documents topic; documents without a record there are absent."""
    latest, order = dict[bytes, Latest](), KeyOrder()
    for_key = frozenset(keys)
    async for stored in records:
        if stored.key is None or stored.key not in for_key:
            continue
        is_outdated = order.is_outdated(stored)
        version, deleted = version_in(stored.headers), stored.value is None
        if stored.value is not None:
            # A record that cannot be decoded still proves that the document has a record.
            with suppress(ValueError):
                change = decode(stored.value)
                version, deleted = change.version, change.operation is Operation.DELETE
        before = latest.get(stored.key)
        if before is not None and is_outdated:
            latest[stored.key] = replace(before, version=max(version, before.version))
            continue
        latest[stored.key] = Latest(
            partition=stored.partition,
            offset=stored.offset,
            recorded_at=recorded_at(stored.headers, Timestamp(stored.timestamp_ms)),
            version=max(version, before.version if before is not None else 0),
            deleted=deleted,
        )
    return latest


def refusal_of_change(letter: DeadLetter, latest: Mapping[bytes, Latest]) -> Refusal | None:
    """Return why a dead letter of the documents topic may not be replayed; None if it may."""
    if letter.key is None:
        return Refusal("a record without a key cannot be on the documents topic")
    last = latest.get(letter.key)
    if last is None:
        return _GONE
    is_later = last.offset > letter.offset
    if last.partition != letter.partition:
        # Partitions were added since.
        is_later = last.recorded_at > recorded_at(letter.headers, letter.timestamp)
    return _superseded(last) if is_later else None


def refusal_of_part(letter: DeadLetter, latest: Mapping[bytes, Latest], revision: Revision) -> Refusal | None:
    """Return why a dead letter with a part of a revision may not be replayed; None if it may."""
    last = latest.get(letter.key or b"")
    if last is None:
        return _GONE
    is_later = last.version > revision.version or last.recorded_at > revision.recorded_at
    return _superseded(last) if is_later else None


def _superseded(last: Latest) -> Refusal:
    kind = "deletion" if last.deleted else "change"
    named = f"{kind} (version {last.version})" if last.version else kind
    at = f"{last.partition}/{last.offset}"
    return Refusal(f"a later {named} of its document is on the documents topic, at {at}", superseded=True)
