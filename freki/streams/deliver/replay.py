"""Which dead letters may be sent again: none that would put an old state of a document over a newer one.

The documents topic is compacted: what is sent last stays, and every new generation of the index begins with it. So a
letter goes there only while its record is the last of its document. Letters of the topics behind it are judged by the
documents topic too: the index forgets deletions after a while, and would take an old revision for a new document.

Between the look and the sending a producer may be faster. Then its change is not the last record of its key, but the
version fence of every index that remembers it keeps it in force.
"""

from collections.abc import AsyncIterable, Callable, Collection, Mapping
from contextlib import suppress

from freki.schemas import DocumentChange, Operation, Revision, Timestamp
from freki.schemas.names import record
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.messages import Stored, recorded_at, version_in

Place = tuple[str, int, int]
"""Topic, partition, offset."""


@record
class Latest:
    """What the documents topic says of a document."""

    partition: int
    offset: int
    """Of its last record."""
    recorded_at: Timestamp
    """Of that record."""
    version: int
    """The highest one of all its records; 0 where none is known."""
    deleted: bool
    """Is its last record a deletion?"""


def place_of(letter: DeadLetter) -> Place:
    """Say where a letter's record lay."""
    return letter.topic, letter.partition, letter.offset


async def latest_of(
    keys: Collection[bytes], records: AsyncIterable[Stored], decode: Callable[[bytes], DocumentChange]
) -> dict[bytes, Latest]:
    """Read what the documents topic says of some documents; those that it holds nothing of are left out."""
    latest: dict[bytes, Latest] = {}
    for_key = frozenset(keys)
    async for stored in records:
        if stored.key is None or stored.key not in for_key:
            continue
        version, deleted = version_in(stored.headers), stored.value is None
        if stored.value is not None:
            # What nobody can read says at least that it is there.
            with suppress(ValueError):
                change = decode(stored.value)
                version, deleted = change.version, change.operation is Operation.DELETE
        before = latest.get(stored.key)
        latest[stored.key] = Latest(
            partition=stored.partition,
            offset=stored.offset,
            recorded_at=recorded_at(stored.headers, Timestamp(stored.timestamp_ms)),
            version=max(version, before.version if before is not None else 0),
            deleted=deleted,
        )
    return latest


def refusal_of_change(letter: DeadLetter, latest: Mapping[bytes, Latest]) -> str | None:
    """Say why a letter of the documents topic may not be sent there again; None where it may."""
    if letter.key is None:
        return "a record without a key has no place on the documents topic"
    last = latest.get(letter.key)
    if last is None:
        return "the documents topic holds nothing of its document any more: it was deleted since"
    is_later = last.offset > letter.offset
    if last.partition != letter.partition:
        # Partitions were added since.
        is_later = last.recorded_at > recorded_at(letter.headers, letter.timestamp)
    if is_later:
        return f"a later {_named(last)} of its document is on the documents topic, at {last.partition}/{last.offset}"
    return None


def refusal_of_part(letter: DeadLetter, latest: Mapping[bytes, Latest], revision: Revision) -> str | None:
    """Say why a letter with a part of a revision may not be sent again; None where it may."""
    last = latest.get(letter.key or b"")
    if last is None:
        return "the documents topic holds nothing of its document any more: it was deleted since"
    if last.version > revision.version or last.recorded_at > revision.recorded_at:
        return f"a later {_named(last)} of its document is on the documents topic, at {last.partition}/{last.offset}"
    return None


def _named(last: Latest) -> str:
    kind = "deletion" if last.deleted else "change"
    return f"{kind} (version {last.version})" if last.version else kind
