"""Rules for the replay of dead letters: none may replace a newer state of a document by an older one.

The documents topic is compacted: the last record of a key stays, and every new generation of the index starts from it.
So a dead letter is replayed there only while its record is the last one of its document. Dead letters of later topics
are checked against the documents topic too: the index purges deletions after a while, and would accept an old revision
as a new document.

A producer may publish a change between the check and the replay. Its change is then not the last record of its key, but
the version fence of every index that holds it keeps it in force.
"""

from collections import defaultdict
from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from freki.schemas import DocumentChange, Operation, Revision, Timestamp
from freki.schemas.names import record
from freki.streams.deliver.dead_letters import DeadLetter
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
    lasts: defaultdict[bytes, dict[int, _Last]] = defaultdict(dict)
    for_key = frozenset(keys)
    async for stored in records:
        if stored.key is None or stored.key not in for_key:
            continue
        version, deleted = version_in(stored.headers), stored.value is None
        if stored.value is not None:
            # A record that cannot be decoded still proves that the document has a record.
            with suppress(ValueError):
                change = decode(stored.value)
                version, deleted = change.version, change.operation is Operation.DELETE
        before = lasts[stored.key].get(stored.partition)
        state = Latest(
            partition=stored.partition,
            offset=stored.offset,
            recorded_at=recorded_at(stored.headers, Timestamp(stored.timestamp_ms)),
            version=version if before is None else max(version, before.state.version),
            deleted=deleted,
        )
        lasts[stored.key][stored.partition] = _Last(stored.timestamp_ms, version if stored.value is None else 0, state)
    return {key: _latest(list(found.values())) for key, found in lasts.items()}


class _Last(NamedTuple):
    """The last record of a key in a partition."""

    timestamp_ms: int
    tombstone_version: int
    """Version that a null value removes; 0: it states none, or there is a value."""
    state: Latest


def _latest(lasts: Sequence[_Last]) -> Latest:
    """Return the state of a document by its last records in the partitions that it has had, by their times.

    A null value of a version below the highest one removes what is older from its partition, and nothing else.
    """
    version = max(last.state.version for last in lasts)
    standing = [last for last in lasts if not 0 < last.tombstone_version < version] or lasts
    latest = max(standing, key=lambda last: (last.timestamp_ms, last.state.partition)).state
    return replace(latest, version=version)


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
